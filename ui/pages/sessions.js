// All sessions, the newest first.

import { now, onTick } from '../lib/clock.js';
import { attr, debounced, h, say } from '../lib/dom.js';
import { length, plural } from '../lib/format.js';
import { home, listen, loads, sessionTimers } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { isArmed } from '../lib/timer.js';
import { chip, setChip } from '../parts/chip.js';
import { filterBar } from '../parts/filter.js';
import { failed, loading } from '../parts/states.js';
import { VirtualList } from '../parts/virtual-list.js';

const PAGE = 1000;
const SESSIONS_MAX = 10_000;
const CHOICES = [['asleep', 'Waiting'], ['open', 'Open'], ['closed', 'Closed'], ['all', 'All']];

const waits = (session) => session.live_timers + session.live_reminders + session.live_session_timers;

export default function build(page) {
  let loaded = [];
  let sessions = [];
  const list = new VirtualList({ label: 'Sessions', make, show, idOf: (one) => one.session, empty: 'No sessions here.' });
  const filter = filterBar({ label: 'Search sessions', choices: CHOICES, change: update });
  const place = h('div', { class: 'fill' }, loading());
  page.main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Sessions')), filter.element, place);

  async function load() {
    try {
      const found = [];
      let after;
      do {
        const answer = await home.get('/api/sessions', { limit: PAGE, after });
        found.push(...answer.sessions);
        after = answer.next;
      } while (after && found.length < SESSIONS_MAX);
      loaded = found;
      count();
      if (!list.element.isConnected) place.replaceChildren(list.element);
      update();
    } catch (error) {
      place.replaceChildren(failed(error));
    }
  }

  /// The timers of agents are counted here: a session's row does not hold their number.
  function count() {
    const armed = new Map();
    for (const one of sessionTimers().items.values()) if (isArmed(one)) armed.set(one.session, (armed.get(one.session) ?? 0) + 1);
    sessions = loaded.map((one) => ({ ...one, live_session_timers: armed.get(one.session) ?? 0 }));
  }

  function update() {
    const { text, choice } = filter.state;
    const fits = { asleep: waits, open: (one) => one.state === 'open', closed: (one) => one.state === 'closed', all: () => true }[choice];
    list.items = sessions.filter((one) => fits(one) && (!text || `${one.session} ${one.client ?? ''}`.toLowerCase().includes(text)));
    filter.count(plural(list.items.length, 'session'));
  }

  listen(page, sessionTimers(), 'change', () => {
    count();
    update();
  });
  const again = debounced(load, 300, 1000);
  page.undo.push(home.onEvent(again), () => list.destroy(), onTick(() => list.refresh()));
  loads(page, load);
}

function make() {
  const parts = {
    name: h('a', { class: 'row-purpose' }),
    client: h('span', { class: 'row-kind' }),
    chip: chip(''),
    holds: h('span', { class: 'row-holds' }),
    active: h('span', { class: 'row-total' }),
  };
  const row = h('div', { class: 'timer-row session-row' },
    h('div', { class: 'row-what' }, parts.name, h('span', { class: 'row-meta' }, parts.client)),
    h('div', { class: 'row-chip' }, parts.chip), parts.holds, h('div', { class: 'row-time' }, parts.active));
  row.parts = parts;
  return row;
}

function show(row, session) {
  const { parts } = row;
  say(parts.active, `active ${length(Math.max(0, now() - session.active_at) / 1000)} ago`);
  if (row.session === session) return;
  row.session = session;
  attr(row, 'data-id', session.session);
  say(parts.name, session.session);
  attr(parts.name, 'href', `#/sessions/${segment(session.session)}`);
  say(parts.client, session.agent ?? session.client ?? 'unknown client');
  setChip(parts.chip, session.state === 'open' && waits(session) ? 'waiting' : session.state);
  const holds = [[session.live_timers, 'timer'], [session.live_reminders, 'reminder'], [session.live_session_timers, 'session timer']];
  say(parts.holds, holds.filter(([number]) => number).map(([number, word]) => plural(number, word)).join(', '));
}
