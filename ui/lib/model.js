// What the pages show: the server behind this page and its collections.

import { Collection } from './collection.js';
import { has } from './features.js';
import { oneAtATime } from './load.js';
import { server } from './server.js';
import { isArmed, isLive, isPending } from './timer.js';

export const home = server();

/// What a turn does to all timers of its session at once.
const TURNS = ['session.began', 'session.message', 'session.response', 'session.closed'];

let collections = null;

/// Begun with the first look, after signing in.
function all() {
  collections ??= {
    timers: begun({ kind: 'timer', path: '/api/timers', field: 'timers', idOf: (timer) => timer.timer_id, isLive }),
    reminders: begun({ kind: 'reminder', path: '/api/reminders', field: 'reminders', idOf: (one) => one.taskId, isLive: isPending }),
    sessionTimers: begun({ kind: 'session_timer', path: '/api/session_timers', field: 'session_timers', idOf: (one) => one.timer_instance_id, isLive: isArmed, ofSession: TURNS }),
  };
  return collections;
}

function begun(of) {
  const collection = new Collection(home, { ...of, exists: () => has(of.path) });
  collection.load();
  return collection;
}

export const timers = () => all().timers;
export const reminders = () => all().reminders;
/// Empty where the server runs no agents of its own.
export const sessionTimers = () => all().sessionTimers;

/// Loads now, and anew whenever a lost connection is back: one that was under way then may never be answered. Returns how to
/// load again; `work(signal)` has nothing to say once its signal is aborted.
export function loads(page, work) {
  const load = oneAtATime(work);
  listen(page, home, 'back', load.anew);
  page.undo.push(load.giveUp);
  load();
  return load;
}

/// Ties a listener to the life of a page.
export function listen(page, target, event, listener) {
  target.addEventListener(event, listener);
  page.undo.push(() => target.removeEventListener(event, listener));
}
