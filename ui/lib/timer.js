// The arithmetic of a timer at an instant: pure, and the same for bars, countdowns and the timeline.

export const LIVE = ['running', 'running_background', 'paused'];
export const isLive = (timer) => LIVE.includes(timer.status);

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

/// What happens to it next, and when: for sorting by what comes first.
export function next(timer) {
  if (!isLive(timer)) return Infinity;
  return timer.status === 'paused' ? timer.pause_until : timer.ends_at;
}

export const purpose = (timer) => timer.mission ?? timer.reason ?? '';

const share = (part) => Math.min(1, Math.max(0, part));

/// What may be asked of a timer in this state.
export function actions(timer) {
  switch (timer.status) {
    case 'running': return ['pause', 'cancel', 'stop'];
    case 'running_background': return ['pause', 'stop'];
    case 'paused': return ['resume', 'stop'];
    default: return [];
  }
}
