// One session: what it waits for, what waits in its inbox, what was said, and all that happened.

import { now } from '../lib/clock.js';
import { debounced, h } from '../lib/dom.js';
import { eventName, length, time } from '../lib/format.js';
import { home } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { isLive, next } from '../lib/timer.js';
import { announce, complain } from '../parts/announce.js';
import { chip } from '../parts/chip.js';
import { entryText } from '../parts/entry.js';
import { icon } from '../parts/icons.js';
import { closeSession, newTimer } from '../parts/new-timer.js';
import { empty, failed, loading, section } from '../parts/states.js';

const HISTORY_SHOWN = 200;
const ENDED_SHOWN = 10;

export default function build(page, { session }) {
  const body = h('div', { class: 'stack' }, loading());
  const heading = h('div', { class: 'page-head' }, h('h1', { class: 'session-name' }, session));
  page.main.append(h('p', { class: 'crumbs' }, h('a', { href: '#/sessions' }, 'Sessions')), heading, body);
  const path = `/api/sessions/${segment(session)}`;
  /// Kept from one look to the next, so that what is being used does not vanish under the hand.
  const cards = new Map();

  async function load() {
    try {
      const [whole, owned, past] = await Promise.all([
        home.get(path),
        home.get('/api/timers', { session, limit: 1000 }),
        home.get('/api/history', { session, limit: HISTORY_SHOWN }),
      ]);
      show(whole, owned.timers, past.entries);
    } catch (error) {
      body.replaceChildren(error.code === 'unknown_session' ? empty('Nothing is known of a session of this name.') : failed(error));
    }
  }

  function show(whole, timers, entries) {
    const live = timers.filter(isLive).sort((a, b) => next(a) - next(b));
    const ended = timers.filter((timer) => !isLive(timer)).slice(0, ENDED_SHOWN);
    heading.replaceChildren(h('h1', { class: 'session-name' }, session), head(whole), buttons(whole));
    const parts = [
      section('Waiting', live.length ? h('div', { class: 'cards' }, live.map(card)) : empty('No live timers.')),
      section('Inbox', inbox(whole.inbox)),
      whole.reminders?.length ? section('Reminders', list(whole.reminders.map(reminder))) : null,
      whole.session_timers?.length ? section('Session timers', list(whole.session_timers.map(sessionTimer))) : null,
      whole.calls?.length ? section('Calls', list(whole.calls.map(call))) : null,
      whole.conversation?.length ? section('Conversation', h('div', { class: 'talk' }, whole.conversation.map(turn))) : null,
      ended.length ? section('Ended', h('div', { class: 'cards' }, ended.map(card))) : null,
      section('What happened', h('ol', { class: 'events' }, entries.map(event))),
    ];
    body.replaceChildren(...parts.filter(Boolean));
  }

  function card(timer) {
    if (!cards.has(timer.timer_id)) cards.set(timer.timer_id, h('reveille-timer', { 'timer-id': timer.timer_id }));
    const element = cards.get(timer.timer_id);
    element.timer = timer;
    return element;
  }

  function buttons(whole) {
    return h('div', { class: 'page-buttons' },
      h('button', { class: 'button', type: 'button', onclick: () => newTimer(session) }, icon('plus'), h('span', {}, 'New timer')),
      whole.inbox.length ? h('button', { class: 'button', type: 'button', onclick: () => wake(path) }, icon('wake'), h('span', {}, 'Wake now')) : null,
      whole.state === 'open' ? h('button', { class: 'button', type: 'button', onclick: () => closeSession(session) }, icon('close'), h('span', {}, 'Close')) : null);
  }

  const again = debounced(load, 120, 500);
  page.undo.push(home.onEvent((entry) => entry.session === session && again()));
  load();
}

function head(whole) {
  return h('p', { class: 'facts' }, chip(whole.state), h('span', {}, whole.client ?? 'unknown client'),
    h('span', {}, 'opened ', time(whole.created_at, now())), h('span', {}, 'active ', time(whole.active_at, now())));
}

async function wake(path) {
  try {
    const { rule } = await home.post(`${path}/wake`);
    announce(`${rule} runs as soon as its rule allows`);
  } catch (error) {
    complain(error);
  }
}

const list = (rows) => h('ul', { class: 'plain' }, rows);

function inbox(messages) {
  if (!messages.length) return empty('Nothing waits to be told.');
  return h('div', { class: 'stack' }, messages.map((message) => {
    const element = h('reveille-message', {});
    element.message = message;
    return element;
  }));
}

function reminder(one) {
  return h('li', {}, chip(one.status), h('span', { class: 'grow' }, one.task), h('span', { class: 'muted' }, time(Date.parse(one.dueAt), now())));
}

function sessionTimer(one) {
  const when = one.suspended ? 'waits for the answer' : one.next_trigger_at ? ['fires ', time(one.next_trigger_at, now())] : `fired ${one.trigger_count}×`;
  return h('li', {}, chip(one.status), h('span', { class: 'grow' }, one.timer_id, ' → ', h('code', {}, one.tool_name)),
    h('span', { class: 'muted' }, `after ${length(one.delay_seconds)} of silence, `, when));
}

function call(one) {
  return h('li', {}, chip(one.status), h('code', { class: 'grow' }, one.target), h('span', { class: 'muted' }, one.last_error ?? '', ' ', time(one.created_at, now())));
}

function turn(one) {
  const raw = one.content ?? one.text ?? '';
  const text = typeof raw === 'string' ? raw : JSON.stringify(raw);
  return h('div', { class: 'turn', 'data-role': one.role }, h('p', { class: 'turn-role' }, one.role ?? ''), h('p', { class: 'turn-text' }, text));
}

function event(entry) {
  return h('li', { class: 'event', 'data-kind': entry.kind }, time(entry.at, now()), h('span', { class: 'event-name' }, eventName(entry.event)),
    h('span', { class: 'event-text' }, entryText(entry)), h('code', { class: 'event-id' }, entry.kind === 'session' ? '' : entry.id));
}
