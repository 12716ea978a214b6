// The first look: what comes next, what the hours around now hold, who sleeps, what was saved.

import { now, onTick } from '../lib/clock.js';
import { debounced, h, say } from '../lib/dom.js';
import { count, countdown, exact, instant, length, plural } from '../lib/format.js';
import { home, listen, reminders, sessionTimers, timers } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { isLive, purpose, remaining } from '../lib/timer.js';
import { chip } from '../parts/chip.js';
import { feed } from '../parts/feed.js';
import { section } from '../parts/states.js';
import { DOTS, Timeline } from '../parts/timeline.js';

const HOUR_MS = 3_600_000;
const HISTORY_PAGE = 1000;
const HISTORY_PAGES_MAX = 4;
const SLEEPERS_SHOWN = 8;
const REDRAW_MS = 5000;

export default function build(page) {
  const next = nextCard();
  const tiles = tileRow();
  const timeline = new Timeline();
  const sleepers = h('ul', { class: 'sleepers' });
  const noSleepers = h('p', { class: 'empty' }, 'Nobody sleeps: no timer or reminder is pending.');
  page.main.append(
    h('div', { class: 'page-head' }, h('h1', { class: 'visually-hidden' }, 'Overview')),
    h('div', { class: 'top' }, next.element, tiles.element),
    section('Around now', timeline.element),
    h('div', { class: 'columns' }, section('Asleep', sleepers, noSleepers), section('Messages', feed(page))));
  let past = [];
  let drawn = 0;

  function changed() {
    const pending = allPending();
    next.show(pending[0]);
    const asleep = bySession(pending);
    noSleepers.hidden = asleep.length > 0;
    sleepers.replaceChildren(...asleep.slice(0, SLEEPERS_SHOWN).map(sleeper));
    if (asleep.length > SLEEPERS_SHOWN) {
      sleepers.append(h('li', { class: 'more' }, h('a', { href: '#/sessions' }, `and ${plural(asleep.length - SLEEPERS_SHOWN, 'more session')}`)));
    }
    tiles.asleep(asleep.length);
    drawAgain();
  }

  function drawAgain() {
    const [of, remind, ofAgents] = [timers(), reminders(), sessionTimers()].map(({ items }) => [...items.values()]);
    timeline.data = { timers: of, reminders: remind, sessionTimers: ofAgents, events: past };
  }

  const figures = debounced(() => home.stats().then(tiles.figures).catch(() => {}), 150, 600);
  listen(page, timers(), 'change', changed);
  listen(page, reminders(), 'change', changed);
  listen(page, sessionTimers(), 'change', changed);
  page.undo.push(
    home.onEvent((entry) => {
      figures();
      if (!DOTS[entry.event]) return;
      past.push(entry);
      drawAgain();
    }),
    onTick((time) => {
      next.tick(time);
      for (const row of sleepers.children) row.tick?.(time);
      if (time - drawn < REDRAW_MS) return;
      drawn = time;
      timeline.draw(time);
    }),
    () => timeline.observer.disconnect());
  changed();
  figures();
  lastHour().then((entries) => {
    past = entries;
    changed();
  }).catch(() => {});
}

/// Everything with a time ahead, the soonest first.
function allPending() {
  const ofTimers = [...timers().items.values()].filter(isLive)
    .map((timer) => ({ kind: 'timer', at: timer.ends_at, session: timer.session, text: purpose(timer), status: timer.status, item: timer }));
  const ofReminders = [...reminders().items.values()].filter((one) => ['scheduled', 'due'].includes(one.status))
    .map((one) => ({ kind: 'reminder', at: Date.parse(one.dueAt), session: one.session, text: one.task, status: one.status, item: one }));
  const ofAgents = [...sessionTimers().items.values()].filter((one) => one.next_trigger_at && !one.suspended)
    .map((one) => ({ kind: 'session_timer', at: one.next_trigger_at, session: one.session, text: `${one.timer_id} → ${one.tool_name}`, status: one.status, item: one }));
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

const left = (one, time) => (one.kind === 'timer' ? remaining(one.item, time) : one.at - time);

function sleeper(one) {
  const time = h('span', { class: 'sleeper-left', title: exact(one.at) });
  const row = h('li', { class: 'sleeper' },
    h('a', { class: 'sleeper-name', href: `#/sessions/${segment(one.session)}` }, one.session),
    h('span', { class: 'sleeper-text' }, one.text, one.more ? h('span', { class: 'muted' }, `  +${count(one.more)}`) : ''), chip(one.status), time);
  row.tick = (at) => say(time, countdown(left(one, at)));
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
  const tick = (time) => shown && say(big, countdown(left(shown, time)));
  function show(one) {
    shown = one ?? null;
    element.dataset.status = one?.status ?? '';
    if (!one) {
      say(big, '–');
      say(text, 'Nothing is pending.');
      where.replaceChildren();
      return;
    }
    say(text, one.text);
    where.replaceChildren(h('a', { href: `#/sessions/${segment(one.session)}` }, one.session), ' ', chip(one.status), ' ',
      h('time', { datetime: exact(one.at), title: exact(one.at) }, `at ${instant(one.at, now())}`));
    tick(now());
  }
  return { element, show, tick };
}

function tileRow() {
  const names = { live: 'Live timers', reminders: 'Reminders', asleep: 'Sessions asleep', saved: 'Requests saved', slept: 'Time slept', waiting: 'Messages waiting' };
  const values = Object.fromEntries(Object.keys(names).map((key) => [key, h('dd', {}, '–')]));
  const element = h('dl', { class: 'tiles' }, Object.entries(names).map(([key, name]) => h('div', { class: 'tile', 'data-tile': key }, h('dt', {}, name), values[key])));
  return {
    element,
    asleep: (number) => say(values.asleep, count(number)),
    figures(stats) {
      const { timers: of, reminders: remind, standby, messages } = stats;
      say(values.live, count(of.running + of.running_background + of.paused));
      say(values.reminders, count(remind.scheduled + remind.due));
      say(values.saved, count(standby.requests_saved));
      say(values.slept, length(standby.slept));
      say(values.waiting, count(messages.pending));
      values.saved.title = `had each asked every ${length(standby.poll_interval)}`;
    },
  };
}

async function lastHour() {
  const since = now() - HOUR_MS;
  const found = [];
  let before;
  for (let pages = 0; pages < HISTORY_PAGES_MAX; pages += 1) {
    const { entries } = await home.get('/api/history', { limit: HISTORY_PAGE, before });
    found.push(...entries.filter((entry) => entry.at >= since));
    const oldest = entries.at(-1);
    if (!oldest || entries.length < HISTORY_PAGE || oldest.at < since) break;
    before = oldest.seq;
  }
  return found.reverse();
}
