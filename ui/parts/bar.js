// The two durations of a timer in one bar: the whole, and inside it the present stand-by.

import { attr, h } from '../lib/dom.js';
import { countdown, length } from '../lib/format.js';
import { left, progress, remaining, standby, waits } from '../lib/timer.js';

export function bar() {
  const parts = [h('i', { class: 'bar-fill' }), h('i', { class: 'bar-standby' }), h('i', { class: 'bar-standby-fill' })];
  return h('div', { class: 'bar', role: 'progressbar', 'aria-valuemin': 0, 'aria-valuemax': 100 }, parts);
}

const percent = (share) => `${(share * 100).toFixed(3)}%`;

export function setBar(element, timer, now) {
  const part = progress(timer, now);
  const stands = standby(timer, now);
  const { style } = element;
  style.setProperty('--done', percent(part));
  style.setProperty('--from', percent(stands?.from ?? 0));
  style.setProperty('--to', percent(stands?.to ?? 0));
  style.setProperty('--at', percent(stands?.at ?? 0));
  attr(element, 'data-status', timer.status);
  attr(element, 'data-standby', Boolean(stands));
  attr(element, 'aria-valuenow', Math.floor(part * 100));
  const waiting = waits(timer);
  const words = waiting ? `${waiting}, in ${countdown(left(timer, now))}` : `${countdown(remaining(timer, now))} of ${length(timer.total_duration)} left`;
  attr(element, 'aria-valuetext', stands ? `${words}, stands by for ${countdown(stands.left)} more` : words);
  attr(element, 'aria-label', `Progress of ${timer.timer_id}`);
  element.title = stands ? `${words}; the call stands by for ${countdown(stands.left)} more` : words;
}
