// One timer as a row of a list.

import { attr, h, say } from '../lib/dom.js';
import { countdown, exact, length } from '../lib/format.js';
import { home } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { actions, isLive, purpose, remaining } from '../lib/timer.js';
import { act } from './act.js';
import { bar, setBar } from './bar.js';
import { chip, setChip } from './chip.js';
import { icon } from './icons.js';
import { WORDS } from './words.js';

const KEYS = { p: 'pause', r: 'resume', c: 'cancel', s: 'stop' };

export function makeTimerRow() {
  const parts = {
    kind: h('span', { class: 'row-kind' }),
    purpose: h('span', { class: 'row-purpose' }),
    session: h('a', { class: 'row-session' }),
    chip: chip(''),
    bar: bar(),
    left: h('span', { class: 'row-left' }),
    total: h('span', { class: 'row-total' }),
    buttons: h('span', { class: 'row-buttons' }),
  };
  for (const action of ['pause', 'resume', 'cancel', 'stop']) {
    const press = () => act(home, row.timer, action);
    parts.buttons.append(h('button', { class: 'icon-button', type: 'button', 'data-action': action, onclick: press }, icon(action)));
  }
  const what = h('div', { class: 'row-what' }, parts.purpose, h('span', { class: 'row-meta' }, parts.kind, parts.session));
  const time = h('div', { class: 'row-time' }, parts.left, parts.total);
  const row = h('div', { class: 'timer-row' }, what, h('div', { class: 'row-chip' }, parts.chip), parts.bar, time, parts.buttons);
  row.parts = parts;
  return row;
}

export function showTimerRow(row, timer, now) {
  const { parts } = row;
  if (row.timer !== timer) {
    row.timer = timer;
    attr(row, 'data-id', timer.timer_id);
    attr(row, 'data-status', timer.status);
    say(parts.kind, timer.mission === undefined ? 'waits' : 'mission');
    say(parts.purpose, purpose(timer));
    parts.purpose.title = `${timer.timer_id}: ${purpose(timer)}`;
    say(parts.session, timer.session);
    attr(parts.session, 'href', `#/sessions/${segment(timer.session)}`);
    setChip(parts.chip, timer.status);
    parts.chip.title = timer.stop_reason ?? '';
    const allowed = actions(timer);
    for (const button of parts.buttons.children) {
      const action = button.dataset.action;
      button.hidden = !allowed.includes(action);
      attr(button, 'aria-label', `${WORDS[action].label} ${timer.timer_id}`);
      button.title = WORDS[action].label;
    }
  }
  tickTimerRow(row, now);
}

export function tickTimerRow(row, now) {
  const { timer, parts } = row;
  setBar(parts.bar, timer, now);
  say(parts.left, isLive(timer) ? countdown(remaining(timer, now)) : '–');
  say(parts.total, `of ${length(timer.total_duration)}`);
  attr(parts.left, 'title', timer.ends_at && `${isLive(timer) ? 'Ends' : 'Ended'} ${exact(timer.ends_at)}`);
}

export function timerKey(event, timer) {
  const action = KEYS[event.key];
  if (!action || !actions(timer).includes(action)) return;
  event.preventDefault();
  act(home, timer, action);
}
