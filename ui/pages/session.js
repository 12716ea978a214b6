// One session: what it waits for on top, what waits in its inbox, and all of it as one timeline, live.

import { now, onTick } from '../lib/clock.js';
import { debounced, h } from '../lib/dom.js';
import { time } from '../lib/format.js';
import { Log } from '../lib/log.js';
import { home, listen, loads } from '../lib/model.js';
import { coming, past } from '../lib/moments.js';
import { mayOperate } from '../lib/rights.js';
import { segment } from '../lib/server.js';
import { announce, complain } from '../parts/announce.js';
import { chip } from '../parts/chip.js';
import { filterBar } from '../parts/filter.js';
import { icon } from '../parts/icons.js';
import { Moments } from '../parts/moments.js';
import { closeSession, newReminder, newTimer } from '../parts/new.js';
import { quietWords, setQuiet } from '../parts/quiet.js';
import { empty, failed, loading, section } from '../parts/states.js';
import { Waiting } from '../parts/waiting.js';

const PAGE = 200;
/// More than this is not kept on this page; History has the rest.
const ENTRIES_MAX = 2000;
const TIMERS_MAX = 1000;
const CHOICES = [['all', 'All'], ['said', 'Conversation'], ['timer', 'Timers'], ['reminder', 'Reminders'], ['session_timer', 'Session timers'], ['call', 'Calls'], ['message', 'Messages'], ['session', 'Session']];

export default function build(page, { session }) {
  const path = `/api/sessions/${segment(session)}`;
  const log = new Log(ENTRIES_MAX);
  const waiting = new Waiting(page);
  const moments = new Moments();
  const inboxPlace = h('div', {});
  const older = h('button', { class: 'button', type: 'button', onclick: readOlder }, 'Show older');
  const elsewhere = h('a', { href: `#/history?session=${segment(session)}`, hidden: true }, 'Older ones are in the history');
  const filter = filterBar({ label: 'Search the timeline', choices: CHOICES, change: draw });
  const parts = [section('Waiting', waiting.element), inboxPlace, section('Timeline', filter.element, moments.element, older, elsewhere)];
  const body = h('div', { class: 'stack' }, loading());
  const heading = h('div', { class: 'page-head' }, h('h1', { class: 'session-name' }, session));
  page.main.append(h('p', { class: 'crumbs' }, h('a', { href: '#/sessions' }, 'Sessions')), heading, body);
  let state = null;
  let begun = false;

  async function read(signal) {
    try {
      const [whole, { in_force: quiet }, owned, { entries }] = await Promise.all([
        home.get(path, {}, signal),
        home.get(`${path}/quiet`, {}, signal),
        home.get('/api/timers', { session, limit: TIMERS_MAX }, signal),
        begun ? { entries: null } : home.get('/api/history', { session, limit: PAGE }, signal),
      ]);
      if (signal.aborted) return;
      if (entries) log.begin(entries, PAGE);
      begun = true;
      state = { ...whole, inForce: quiet, timers: owned.timers, sessionTimers: whole.session_timers };
      show();
    } catch (error) {
      if (signal.aborted) return;
      body.replaceChildren(error.code === 'unknown_session' ? empty('Nothing is known of a session of this name.') : failed(error));
    }
  }

  function show() {
    heading.replaceChildren(h('h1', { class: 'session-name' }, session), head(state), buttons(state));
    waiting.show(state.timers, state.reminders, state.sessionTimers, now());
    inboxPlace.replaceChildren(...(state.inbox.length ? [section('Inbox', inbox(state.inbox))] : []));
    inboxPlace.hidden = !state.inbox.length;
    if (body.firstChild !== parts[0]) body.replaceChildren(...parts);
    draw();
  }

  function draw() {
    if (!state) return;
    const { text, choice } = filter.state;
    const fits = (one) => (choice === 'all' || one.kind === choice)
      && (!text || `${one.title}\n${one.text ?? ''}\n${one.id}\n${JSON.stringify(one.entry?.data ?? '')}`.toLowerCase().includes(text));
    const [ahead, been] = [coming(state).filter(fits), past(log.entries, state.conversation).filter(fits)];
    moments.show(ahead, been, now());
    filter.count(`${ahead.length} to come, ${been.length} past`);
    older.hidden = !log.more || log.isFull;
    elsewhere.hidden = !(log.more && log.isFull);
  }

  async function readOlder() {
    try {
      const { entries } = await home.get('/api/history', { session, limit: PAGE, before: log.entries.at(-1)?.seq });
      log.older(entries, PAGE);
      draw();
    } catch (error) {
      complain(error);
    }
  }

  // Heard before `loads` hears it, which then reads all of it.
  listen(page, home, 'back', () => {
    begun = false;
    log.clear();
  });
  const again = debounced(loads(page, read), 120, 500);
  page.undo.push(
    home.onEvent((entry) => {
      if (entry.session !== session) return;
      log.add(entry);
      again();
    }),
    onTick((at) => moments.tick(at)));
  function buttons(whole) {
    if (!mayOperate()) return '';
    return h('div', { class: 'page-buttons' },
      h('button', { class: 'button', type: 'button', onclick: () => newTimer(session) }, icon('plus'), h('span', {}, 'Timer')),
      h('button', { class: 'button', type: 'button', onclick: () => newReminder(session) }, icon('plus'), h('span', {}, 'Reminder')),
      h('button', { class: 'button', type: 'button', onclick: () => setQuiet(path, session, whole.quiet) }, icon('quiet'), h('span', {}, 'Quiet hours')),
      whole.inbox.length ? h('button', { class: 'button', type: 'button', onclick: () => wake(path) }, icon('wake'), h('span', {}, 'Wake now')) : null,
      whole.state === 'open' ? h('button', { class: 'button', type: 'button', onclick: () => closeSession(session) }, icon('close'), h('span', {}, 'Close')) : null);
  }
}

function head(whole) {
  return h('p', { class: 'facts' }, chip(whole.state), h('span', {}, whole.agent ?? whole.client ?? 'unknown client'),
    h('span', {}, 'opened ', time(whole.created_at, now())), h('span', {}, 'active ', time(whole.active_at, now())),
    whole.inForce ? h('span', { class: 'quiet' }, `quiet ${quietWords(whole.inForce)}${whole.quiet ? '' : ', as all sessions'}`) : null);
}

async function wake(path) {
  try {
    const { rule } = await home.post(`${path}/wake`);
    announce(`${rule} runs as soon as its rule allows`);
  } catch (error) {
    complain(error);
  }
}

function inbox(messages) {
  return h('div', { class: 'stack' }, messages.map((message) => {
    const element = h('reveille-message', {});
    element.message = message;
    return element;
  }));
}
