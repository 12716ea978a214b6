// The first look: what comes next, what the hours around now hold, who sleeps, what was saved.

import { failing, isRetrying } from '../lib/calls.js';
import { now, onTick } from '../lib/clock.js';
import { debounced, h, say } from '../lib/dom.js';
import { count, countdown, exact, instant, length, plural } from '../lib/format.js';
import { oneAtATime } from '../lib/load.js';
import { home, listen, loads, reminders, sessionTimers, timers } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { isArmed, isLive, isPending, left, opensAt, purpose, waits } from '../lib/timer.js';
import { chip } from '../parts/chip.js';
import { feed } from '../parts/feed.js';
import { firstSteps } from '../parts/first-steps.js';
import { section } from '../parts/states.js';
import { DOTS, Timeline } from '../parts/timeline.js';

const HOUR_MS = 3_600_000;
const HISTORY_PAGE = 1000;
const HISTORY_PAGES_MAX = 4;
const SLEEPERS_SHOWN = 8;
const REDRAW_MS = 5000;
/// Of many changes at once, all are drawn together, and at the latest after the second of these.
const GATHER_MS = 40;
const GATHER_MOST_MS = 250;

export default function build(page) {
  const next = nextCard();
  const tiles = tileRow();
  const timeline = new Timeline();
  const sleepers = h('ul', { class: 'sleepers' });
  const steps = firstSteps();
  steps.hidden = true;
  const noSleepers = h('p', { class: 'empty' }, 'Nobody sleeps: no timer or reminder is pending.');
  page.main.append(
    h('div', { class: 'page-head' }, h('h1', { class: 'visually-hidden' }, 'Overview')),
    h('div', { class: 'top' }, next.element, tiles.element), steps,
    section('Around now', timeline.element),
    h('div', { class: 'columns' }, section('Asleep', sleepers, noSleepers), section('Messages', feed(page))));
  let past = [];
  let drawn = 0;
  let refused = null;

  function show() {
    const pending = allPending();
    // What is due already only waits to be told, and what is paused comes only once it has been resumed.
    const paused = pending.filter(({ status }) => status === 'paused').length;
    next.show(pending.find(({ status }) => status !== 'due' && status !== 'paused') ?? pending.find(({ status }) => status === 'due'),
      paused ? `Nothing but what is paused: ${plural(paused, 'timer')}.` : 'Nothing is pending.');
    const asleep = bySession(pending);
    noSleepers.hidden = asleep.length > 0;
    sleepers.replaceChildren(...asleep.slice(0, SLEEPERS_SHOWN).map(sleeper));
    if (asleep.length > SLEEPERS_SHOWN) {
      sleepers.append(h('li', { class: 'more' }, h('a', { href: '#/sessions' }, `and ${plural(asleep.length - SLEEPERS_SHOWN, 'more session')}`)));
    }
    tiles.asleep(asleep.length);
    if (refused) tiles.own(refused);
    const [of, remind, ofAgents] = [timers(), reminders(), sessionTimers()].map(({ items }) => [...items.values()]);
    timeline.data = { timers: of, reminders: remind, sessionTimers: ofAgents, events: past };
  }

  const changed = debounced(show, GATHER_MS, GATHER_MOST_MS);
  const readFigures = oneAtATime(async (signal) => {
    try {
      const stats = await home.stats(signal);
      tiles.figures(stats);
      steps.hidden = stats.sessions > 0;
      // Only where something waits could anything be tried again.
      tiles.failing(stats.calls.waiting ? (await failing(signal)).filter(isRetrying).length : 0, stats.calls.failed);
    } catch (error) {
      if (error.status !== 403) return;
      // Not for this token, and that stays so.
      refused = error;
      changed();
    }
  });
  const figures = debounced(() => refused || readFigures(), 150, 600);
  listen(page, timers(), 'change', changed);
  listen(page, reminders(), 'change', changed);
  listen(page, sessionTimers(), 'change', changed);
  page.undo.push(
    home.onEvent((entry) => {
      figures();
      if (!DOTS[entry.event]) return;
      past.push(entry);
      if (past.length > HISTORY_PAGE * HISTORY_PAGES_MAX) past.shift();
      changed();
    }),
    onTick((time) => {
      next.tick(time);
      for (const row of sleepers.children) row.tick?.(time);
      if (time - drawn < REDRAW_MS) return;
      drawn = time;
      timeline.draw(time);
    }),
    readFigures.giveUp,
    () => timeline.observer.disconnect());
  show();
  figures();
  loads(page, (signal) => lastHour(signal).then((entries) => {
    if (signal.aborted) return;
    const read = entries.at(-1)?.seq ?? 0;
    past = [...entries, ...past.filter(({ seq }) => seq > read)];
    changed();
  }).catch(() => {}));
}

/// Everything with a time ahead, the soonest first.
function allPending() {
  const ofTimers = [...timers().items.values()].filter(isLive)
    .map((timer) => ({ kind: 'timer', at: opensAt(timer), session: timer.session, text: purpose(timer), status: timer.status, item: timer }));
  const ofReminders = [...reminders().items.values()].filter(isPending)
    .map((one) => ({ kind: 'reminder', at: opensAt(one), session: one.session, text: one.task, status: one.status, item: one }));
  const ofAgents = [...sessionTimers().items.values()].filter((one) => one.next_trigger_at && !one.suspended)
    .map((one) => ({ kind: 'session_timer', at: opensAt(one), session: one.session, text: `${one.timer_id} → ${one.tool_name}`, status: one.status, item: one }));
  return [...ofTimers, ...ofReminders, ...ofAgents].sort((a, b) => a.at - b.at);
}

function bySession(pending) {
  const sessions = new Map();
  for (const one of pending) {
    const known = sessions.get(one.session);
    if (known) known.more += 1;
    else sessions.set(one.session, { ...one, more: 0 });
  }
  return [...sessions.values()];
}

function sleeper(one) {
  const time = h('span', { class: 'sleeper-left', title: exact(one.at) });
  const row = h('li', { class: 'sleeper' },
    h('a', { class: 'sleeper-name', href: `#/sessions/${segment(one.session)}` }, one.session),
    h('span', { class: 'sleeper-text' }, one.text, one.more ? h('span', { class: 'muted' }, `  +${count(one.more)}`) : ''), chip(one.status), time);
  row.tick = (at) => say(time, left(one.item, at) > 0 ? countdown(left(one.item, at)) : 'now');
  row.tick(now());
  return row;
}

function nextCard() {
  const label = h('p', { class: 'next-label' }, 'Next');
  const big = h('p', { class: 'next-left' }, '–');
  const text = h('p', { class: 'next-text' }, 'Nothing is pending.');
  const where = h('p', { class: 'next-where' });
  const element = h('section', { class: 'next', 'aria-label': 'What fires next' }, label, big, text, where);
  let shown = null;
  const tick = (time) => shown && say(big, countdown(left(shown.item, time)));
  function show(one, none) {
    shown = one ?? null;
    element.dataset.status = one?.status ?? '';
    if (!one) {
      say(big, '–');
      say(text, none);
      where.replaceChildren();
      return;
    }
    say(text, one.text);
    where.replaceChildren(h('a', { href: `#/sessions/${segment(one.session)}` }, one.session), ' ', chip(one.status), ' ',
      h('time', { datetime: exact(one.at), title: exact(one.at) }, `at ${instant(one.at, now())}`), waits(one.item) ? ` · ${waits(one.item)}` : '');
    tick(now());
  }
  return { element, show, tick };
}

function tileRow() {
  const names = { live: 'Live timers', reminders: 'Reminders', armed: 'Session timers', asleep: 'Sessions asleep', waiting: 'Messages waiting', failed: 'Calls failing', saved: 'Requests saved', slept: 'Time slept' };
  const values = Object.fromEntries(Object.keys(names).map((key) => [key, h('dd', {}, '–')]));
  const list = h('dl', { class: 'tiles' }, Object.entries(names).map(([key, name]) => h('div', { class: 'tile', 'data-tile': key }, h('dt', {}, name), values[key])));
  const note = h('p', { class: 'muted', hidden: true });
  return {
    element: h('div', { class: 'figures' }, list, note),
    /// The server keeps its figures from this token: what the page has read itself is counted, and the rest left out.
    own({ message }) {
      for (const [key, { state, items }, fits] of [['live', timers(), isLive], ['reminders', reminders(), isPending], ['armed', sessionTimers(), isArmed]]) {
        if (state === 'ready') say(values[key], count([...items.values()].filter(fits).length));
      }
      for (const key of ['waiting', 'failed', 'saved', 'slept']) values[key].parentElement.hidden = true;
      say(note, `Counted from what this token sees; ${message}.`);
      note.hidden = false;
    },
    failing(retried, failed) {
      say(values.failed, count(retried + failed));
      values.failed.title = `${count(retried)} tried again, ${count(failed)} given up`;
      values.failed.classList.toggle('problem', retried + failed > 0);
    },
    asleep: (number) => say(values.asleep, count(number)),
    figures(stats) {
      const { timers: of, reminders: remind, session_timers: armed, standby, messages } = stats;
      say(values.live, count(of.running + of.running_background + of.paused));
      say(values.reminders, count(remind.scheduled + remind.due));
      say(values.armed, count(armed.pending + armed.triggered));
      say(values.saved, count(standby.requests_saved));
      say(values.slept, length(standby.slept));
      say(values.waiting, count(messages.pending));
      values.saved.title = `had each asked every ${length(standby.poll_interval)}`;
    },
  };
}

async function lastHour(signal) {
  const since = now() - HOUR_MS;
  const found = [];
  let before;
  for (let pages = 0; pages < HISTORY_PAGES_MAX; pages += 1) {
    const { entries } = await home.get('/api/history', { limit: HISTORY_PAGE, before }, signal);
    found.push(...entries.filter((entry) => entry.at >= since));
    const oldest = entries.at(-1);
    if (!oldest || entries.length < HISTORY_PAGE || oldest.at < since) break;
    before = oldest.seq;
  }
  return found.reverse();
}
