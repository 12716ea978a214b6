// The arithmetic of a timer at an instant: pure, and the same for bars, countdowns and the timeline.

import { clockTime, length, weekdayOf } from './format.js';

export const LIVE = ['running', 'running_background', 'paused'];
export const isLive = (timer) => LIVE.includes(timer.status);

/// The same of reminders and of the timers that agents have in their sessions.
export const isPending = (reminder) => ['scheduled', 'due'].includes(reminder.status);
export const isArmed = (sessionTimer) => ['pending', 'triggered'].includes(sessionTimer.status);

/// Milliseconds left. Time stands still while it is paused, and is over when it is over.
export function remaining(timer, now) {
  if (timer.status === 'paused' || !isLive(timer)) return timer.remaining_time * 1000;
  return Math.min(Math.max(0, timer.ends_at - now), timer.total_duration * 1000);
}

/// How much of the whole has passed, from 0 to 1.
export function progress(timer, now) {
  const total = timer.total_duration * 1000;
  return total > 0 ? share(1 - remaining(timer, now) / total) : 1;
}

/// The present stand-by as a part of the whole: where it begins and ends, and how far it is. `null`: nobody stands by.
export function standby(timer, now) {
  if (timer.status !== 'running' || !timer.standby_until || timer.standby_until <= now) return null;
  const total = timer.total_duration * 1000;
  const place = (at) => share(1 - (timer.ends_at - at) / total);
  const since = timer.standby_since ?? timer.last_check_at;
  return { from: place(since), to: place(timer.standby_until), at: place(now), left: timer.standby_until - now };
}

/// When a timer, a reminder or a session timer is due.
const dueAt = (item) => item.waits_since ?? item.ends_at ?? item.next_trigger_at ?? Date.parse(item.dueAt);

/// When it comes: as soon as it is due or, if that is within quiet hours, when those are over.
export function opensAt(item) {
  const waits = item.waits_until ?? item.next_trigger_at ?? (item.waitsUntil ? Date.parse(item.waitsUntil) : 0);
  return Math.max(dueAt(item), waits);
}

/// Milliseconds until it comes.
export const left = (item, now) => (item.remaining_time === undefined || waits(item) ? Math.max(0, opensAt(item) - now) : remaining(item, now));

/// What happens to it next, and when: for sorting by what comes first.
export function next(timer) {
  if (!isLive(timer)) return Infinity;
  return timer.status === 'paused' ? timer.pause_until : opensAt(timer);
}

/// `every 0 9 * * 1-5 (Europe/Berlin), fired 3 of 10`; `at …`; nothing for a timer that has a length only.
export function schedule(timer) {
  const { at, cron, interval, zone, fires, max_fires: max, missed } = timer.schedule ?? {};
  const where = zone ? ` (${zone})` : '';
  if (at) return `at ${at}${where}`;
  if (!cron && !interval) return '';
  const fired = fires ? `, fired ${fires}${max ? ` of ${max}` : ''}` : max ? `, ${max} times` : '';
  return `every ${cron ?? length(interval)}${where}${fired}${missed ? `, ${missed} missed` : ''}`;
}

/// Beyond this a time of day alone could be that of another day.
const SAME_DAY_MS = 43_200_000;

/// `due 02:10, waits for 08:00 (quiet hours)`; nothing where nothing waits.
export function waits(item) {
  const [due, opens] = [dueAt(item), opensAt(item)];
  if (!(isLive(item) || isPending(item) || isArmed(item)) || item.status === 'paused' || opens <= due) return '';
  return `due ${clockTime(due)}, waits for ${opens - due > SAME_DAY_MS ? `${weekdayOf(opens)}, ` : ''}${clockTime(opens)} (quiet hours)`;
}

export const recurs = (timer) => Boolean(timer.schedule?.cron ?? timer.schedule?.interval);

export const purpose = (timer) => timer.mission ?? timer.reason ?? '';

/// What it waits for besides its time, in words; `''`: nothing.
export function awaited({ until }) {
  if (!until) return '';
  if (until.http) return `${until.http} answers${until.status ? ` ${until.status}` : ''}${until.body_matches ? ` with ${until.body_matches}` : ''}`;
  if (until.tcp) return `${until.tcp} takes connections`;
  if (until.process) return `process ${until.process} ends`;
  if (until.command) return `${until.command.join(' ')} exits with 0`;
  if (until.contains) return `${until.file} contains ${until.contains}`;
  return `${until.file} ${until.changed ? 'changes' : until.exists === false ? 'is gone' : 'exists'}`;
}

/// `until http://… answers`, or `met: …`; nothing without a condition.
export function condition(timer) {
  const what = awaited(timer);
  return what && `${timer.met ? 'met:' : isLive(timer) ? 'until' : 'not met:'} ${what}`;
}

/// What was seen of it: when it was met, else at the last look.
export const seen = (timer) => (timer.seen ? `seen: ${timer.seen}` : '');

const share = (part) => Math.min(1, Math.max(0, part));

/// What may be asked of a timer in this state.
export function actions(timer) {
  switch (timer.status) {
    // A mission is in the background from the beginning: no call waits for it.
    case 'running': return timer.mission === undefined ? ['pause', 'cancel', 'stop'] : ['pause', 'stop'];
    case 'running_background': return ['pause', 'stop'];
    // Paused again, it is paused for as long from now on; cancelled, it resumes in the background.
    case 'paused': return timer.mission === undefined ? ['resume', 'pause', 'cancel', 'stop'] : ['resume', 'pause', 'stop'];
    default: return [];
  }
}
