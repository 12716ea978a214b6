// The one clock of the page. Every countdown hangs on it, and it shows the server's time, not this machine's.

import { guarded } from './dom.js';

const TICK_MS = 250;
const TICK_CALM_MS = 1000;

/// Server's time minus this machine's.
let offset = 0;
let timer = 0;
const listeners = new Set();
const calm = matchMedia('(prefers-reduced-motion: reduce)');

export const now = () => Date.now() + offset;

/// The server said `theirs`, between these two instants of ours.
export function adjust(theirs, sent, received) {
  offset = theirs - (sent + received) / 2;
}

/// Called with the time at every tick, while the page is seen; returns how to stop that.
export function onTick(listener) {
  listeners.add(listener);
  listener(now());
  if (!timer) next();
  return () => listeners.delete(listener);
}

function next() {
  const length = calm.matches ? TICK_CALM_MS : TICK_MS;
  timer = setTimeout(tick, length - (now() % length));
}

function tick() {
  timer = 0;
  if (!listeners.size) return;
  if (!document.hidden) {
    const time = now();
    for (const listener of [...listeners]) guarded(() => listener(time));
  }
  next();
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden || !listeners.size) return;
  clearTimeout(timer);
  tick();
});
