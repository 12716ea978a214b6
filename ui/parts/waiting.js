// What a session waits for, as cards: timers with their buttons, reminders, its agent's timers.

import { onTick } from '../lib/clock.js';
import { arrange, attr, h, say } from '../lib/dom.js';
import { countdown, exact, instant, length } from '../lib/format.js';
import { mayOperate } from '../lib/rights.js';
import { isArmed, isLive, isPending, next, opensAt, waits } from '../lib/timer.js';
import { cancelReminder } from './act.js';
import { chip } from './chip.js';
import { empty } from './states.js';

export class Waiting {
  /// Kept from one look to the next, so that what is being used does not vanish under the hand.
  #cards = new Map();
  #none = empty('It waits for nothing.');

  constructor(page) {
    this.element = h('div', { class: 'cards' });
    page.undo.push(onTick((now) => [...this.element.children].forEach((card) => card.tick?.(now))));
  }

  show(timers, reminders, sessionTimers, now) {
    const cards = [
      ...timers.filter(isLive).sort((a, b) => next(a) - next(b)).map((timer) => this.#timer(timer)),
      ...reminders.filter(isPending).sort((a, b) => opensAt(a) - opensAt(b)).map((one) => this.#kept(one.taskId, one, () => reminderCard(one, now))),
      ...sessionTimers.filter(isArmed).map((one) => this.#kept(one.timer_instance_id, one, () => sessionTimerCard(one))),
    ];
    arrange(this.element, cards.length ? cards : [this.#none]);
    cards.forEach((card) => card.tick?.(now));
  }

  #timer(timer) {
    const known = this.#cards.get(timer.timer_id) ?? h('reveille-timer', { 'timer-id': timer.timer_id, readonly: !mayOperate() });
    this.#cards.set(timer.timer_id, known);
    known.timer = timer;
    return known;
  }

  #kept(id, item, make) {
    const form = JSON.stringify(item);
    const known = this.#cards.get(id);
    if (known?.form === form) return known;
    const made = Object.assign(make(), { form });
    this.#cards.set(id, made);
    return made;
  }
}

function card({ kind, id, text, status, note, waiting, from, due, to = due, buttons }) {
  const left = h('span', { class: 'wait-left' });
  const bar = due === undefined ? null : h('div', { class: 'bar', role: 'progressbar', 'aria-label': `Progress of ${id}`, 'aria-valuemin': 0, 'aria-valuemax': 100, 'data-status': status }, h('i', { class: 'bar-fill' }));
  const made = h('article', { class: 'card wait', 'data-id': id },
    h('div', { class: 'wait-head' }, h('span', { class: 'wait-kind' }, kind), h('span', { class: 'wait-text' }, text), chip(status)),
    h('div', { class: 'wait-times' }, left, note), waiting ? h('p', { class: 'hint' }, waiting) : null, bar, buttons && h('div', { class: 'wait-buttons' }, buttons));
  made.tick = (now) => {
    if (!bar) return;
    const share = Math.min(1, Math.max(0, (now - from) / Math.max(1, due - from)));
    say(left, to > now ? countdown(to - now) : 'due');
    bar.style.setProperty('--done', `${(share * 100).toFixed(3)}%`);
    attr(bar, 'aria-valuenow', Math.floor(share * 100));
  };
  return made;
}

function reminderCard(one, now) {
  const [due, to] = [Date.parse(one.dueAt), opensAt(one)];
  return card({
    kind: 'Reminder', id: one.taskId, text: one.task, status: one.status, waiting: waits(one), from: Date.parse(one.createdAt), due, to,
    note: h('time', { datetime: exact(to), title: exact(to) }, `at ${instant(to, now)}${one.tool ? `, ${one.tool}` : ''}`),
    buttons: mayOperate() && h('button', { class: 'button', type: 'button', onclick: () => cancelReminder(one) }, 'Cancel'),
  });
}

function sessionTimerCard(one) {
  const budget = one.max_triggers ? `${one.trigger_count} of ${one.max_triggers} fired` : `${one.trigger_count} fired, no limit`;
  const silentAt = one.waits_since ?? one.next_trigger_at;
  const times = one.suspended || !one.next_trigger_at ? {} : { waiting: waits(one), from: silentAt - one.delay_seconds * 1000, due: silentAt, to: opensAt(one) };
  const silence = one.suspended ? 'suspended: the agent answers' : `after ${length(one.delay_seconds)} of silence`;
  return card({ kind: 'Session timer', id: one.timer_instance_id, text: `${one.timer_id} → ${one.tool_name}`, status: one.status, note: `${silence}, ${budget}`, ...times });
}
