// All sessions, the newest first.

import { now, onTick } from '../lib/clock.js';
import { attr, debounced, h, say } from '../lib/dom.js';
import { count, length, plural } from '../lib/format.js';
import { home, listen, loads, sessionTimers } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { isArmed } from '../lib/timer.js';
import { chip, setChip } from '../parts/chip.js';
import { filterBar } from '../parts/filter.js';
import { failed, loading } from '../parts/states.js';
import { VirtualList } from '../parts/virtual-list.js';

const PAGE = 1000;
/// More than this is not held in a page; it says so where there are more.
const SESSIONS_MAX = 10_000;
/// So many changes at once are cheaper to read as a whole.
const NAMED_MAX = 20;
const CHOICES = [['asleep', 'Waiting'], ['open', 'Open'], ['closed', 'Closed'], ['all', 'All']];

const waits = (session) => session.live_timers + session.live_reminders + session.live_session_timers;

export default function build(page) {
  /// By their names, the newest first; nothing before all were read.
  let loaded = null;
  let truncated = false;
  let sessions = [];
  const changed = new Set();
  const list = new VirtualList({ label: 'Sessions', make, show, idOf: (one) => one.session, empty: 'No sessions here.' });
  const filter = filterBar({ label: 'Search sessions', choices: CHOICES, change: update });
  const place = h('div', { class: 'fill' }, loading());
  page.main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Sessions')), filter.element, place);

  async function read(signal) {
    const names = [...changed];
    changed.clear();
    try {
      if (!loaded || names.length > NAMED_MAX) await readAll(signal);
      else await readNamed(names, signal);
      if (signal.aborted) return;
      gather();
      if (!list.element.isConnected) place.replaceChildren(list.element);
      update();
    } catch (error) {
      if (signal.aborted) return;
      names.forEach((name) => changed.add(name));
      if (!loaded) place.replaceChildren(failed(error));
    }
  }

  async function readAll(signal) {
    const found = new Map();
    let after;
    do {
      const answer = await home.get('/api/sessions', { limit: PAGE, after }, signal);
      answer.sessions.forEach((one) => found.set(one.session, one));
      after = answer.next;
    } while (after && found.size < SESSIONS_MAX);
    if (signal.aborted) return;
    loaded = found;
    truncated = Boolean(after);
  }

  /// New ones go before the others; one that is not there any more was removed.
  async function readNamed(names, signal) {
    const answers = await Promise.all(names.map((session) => home.get('/api/sessions', { session }, signal)));
    if (signal.aborted) return;
    const found = new Map(answers.flatMap((answer) => answer.sessions).map((one) => [one.session, one]));
    const fresh = [...found].filter(([name]) => !loaded.has(name)).reverse();
    const known = [...loaded].filter(([name]) => found.has(name) || !names.includes(name)).map(([name, one]) => [name, found.get(name) ?? one]);
    truncated ||= fresh.length + known.length > SESSIONS_MAX;
    loaded = new Map([...fresh, ...known].slice(0, SESSIONS_MAX));
  }

  /// The timers of agents are counted here: a session's row does not hold their number.
  function gather() {
    const armed = new Map();
    for (const one of sessionTimers().items.values()) if (isArmed(one)) armed.set(one.session, (armed.get(one.session) ?? 0) + 1);
    sessions = [...(loaded?.values() ?? [])].map((one) => ({ ...one, live_session_timers: armed.get(one.session) ?? 0 }));
  }

  function update() {
    const { text, choice } = filter.state;
    const fits = { asleep: waits, open: (one) => one.state === 'open', closed: (one) => one.state === 'closed', all: () => true }[choice];
    list.items = sessions.filter((one) => fits(one) && (!text || `${one.session} ${one.client ?? ''}`.toLowerCase().includes(text)));
    filter.count(`${plural(list.items.length, 'session')}${truncated ? ` of the newest ${count(SESSIONS_MAX)}` : ''}`);
  }

  listen(page, sessionTimers(), 'change', () => {
    gather();
    update();
  });
  // Heard before `loads` hears it, which then reads all of them.
  listen(page, home, 'back', () => {
    loaded = null;
  });
  const again = debounced(loads(page, read), 300, 1000);
  page.undo.push(home.onEvent(({ session }) => {
    changed.add(session);
    again();
  }), () => list.destroy(), onTick(() => list.refresh()));
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
