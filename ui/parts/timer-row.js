// One timer as a row of a list.

import { attr, h, say } from '../lib/dom.js';
import { countdown, exact, instant, length } from '../lib/format.js';
import { home } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { condition, isLive, left, opensAt, purpose, recurs, schedule, seen, waits } from '../lib/timer.js';
import { act, offered } from './act.js';
import { bar, setBar } from './bar.js';
import { chip, setChip } from './chip.js';
import { icon } from './icons.js';
import { WORDS } from './words.js';

const KEYS = { p: 'pause', r: 'resume', c: 'cancel', s: 'stop' };

export function makeTimerRow() {
  const parts = {
    kind: h('span', { class: 'row-kind' }),
    purpose: h('span', { class: 'row-purpose' }),
    schedule: h('span', { class: 'row-schedule' }),
    session: h('a', { class: 'row-session' }),
    until: h('span', { class: 'row-until' }),
    why: h('span', { class: 'row-why' }),
    chip: chip(''),
    bar: bar(),
    left: h('span', { class: 'row-left' }),
    total: h('span', { class: 'row-total' }),
    buttons: h('span', { class: 'row-buttons' }),
  };
  for (const action of ['resume', 'pause', 'cancel', 'stop']) {
    const press = () => act(home, row.timer, action);
    parts.buttons.append(h('button', { class: 'icon-button', type: 'button', 'data-action': action, onclick: press }, icon(action)));
  }
  const what = h('div', { class: 'row-what' }, parts.purpose, h('span', { class: 'row-meta' }, parts.kind, parts.schedule, parts.session, parts.until, parts.why));
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
    const when = [schedule(timer), waits(timer)].filter(Boolean).join(', ');
    say(parts.schedule, when);
    parts.schedule.hidden = !when;
    parts.schedule.title = (timer.schedule?.next ?? []).join('\n');
    say(parts.purpose, purpose(timer));
    parts.purpose.title = `${timer.timer_id}: ${purpose(timer)}`;
    say(parts.session, timer.session);
    attr(parts.session, 'href', `#/sessions/${segment(timer.session)}`);
    for (const [part, text, more] of [[parts.until, condition(timer), seen(timer)], [parts.why, timer.stop_reason ? `because ${timer.stop_reason}` : '', '']]) {
      say(part, text);
      part.title = `${text}\n${more}`.trim();
      part.hidden = !text;
    }
    setChip(parts.chip, timer.status);
    const allowed = offered(timer);
    for (const button of parts.buttons.children) {
      const action = button.dataset.action;
      // One that goes while it has the focus leaves it to its row.
      if (!allowed.includes(action) && button === document.activeElement) row.focus({ preventScroll: true });
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
  const live = isLive(timer);
  say(parts.left, live ? countdown(left(timer, now)) : instant(timer.ends_at, now));
  attr(parts.left, 'data-ended', !live);
  say(parts.total, !live ? `after ${length(timer.elapsed_time)}` : waits(timer) ? 'quiet hours' : `of ${length(timer.total_duration)}`);
  attr(parts.left, 'title', timer.ends_at && `${!live ? 'Ended' : recurs(timer) ? 'Next' : 'Ends'} ${exact(live ? opensAt(timer) : timer.ends_at)}`);
}

export function timerKey(event, timer) {
  const action = KEYS[event.key];
  if (!action || !offered(timer).includes(action)) return;
  event.preventDefault();
  act(home, timer, action);
}
