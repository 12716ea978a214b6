// Times and lengths as people read them: in the viewer's own zone, with the exact instant behind.

import { h } from './dom.js';

const two = (number) => String(number).padStart(2, '0');

/// A countdown: `0:07`, `4:05`, `1:02:03`, `3d 04:05`. Whole seconds, upwards, so that it ends at zero.
export function countdown(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const [d, hr, m, s] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
  if (d) return `${d}d ${two(hr)}:${two(m)}`;
  return hr ? `${hr}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/// A length: `45s`, `4m 05s`, `1h 02m`, `3d 4h`.
export function length(seconds) {
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)}ms`;
  const whole = Math.round(seconds);
  const [d, hr, m, s] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
  if (d) return hr ? `${d}d ${hr}h` : `${d}d`;
  if (hr) return m ? `${hr}h ${two(m)}m` : `${hr}h`;
  if (m) return s ? `${m}m ${two(s)}s` : `${m}m`;
  return `${s}s`;
}

const dayAndTime = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const timeOnly = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const minutes = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: 'short', month: 'short', day: 'numeric' });
const integer = new Intl.NumberFormat();

export const timeOf = (ms) => timeOnly.format(ms);
export const clockTime = (ms) => minutes.format(ms);
export const dayOf = (ms) => day.format(ms);
export const weekdayOf = (ms) => weekday.format(ms);
export const count = (number) => integer.format(number);

/// Short for today, with its day for any other.
export function instant(ms, now) {
  const sameDay = new Date(ms).toDateString() === new Date(now).toDateString();
  return (sameDay ? timeOnly : dayAndTime).format(ms);
}

export function exact(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}

/// A `<time>`; hovering shows the instant itself.
export function time(ms, now) {
  if (ms === undefined || ms === null) return '';
  return h('time', { datetime: exact(ms), title: exact(ms) }, instant(ms, now));
}

/// `timer.completed` → `Timer completed`.
export function eventName(event) {
  const words = event.replace(/[._]/g, ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export const statusName = (status) => ({ running_background: 'background' })[status] ?? status;

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
