// One session as moments in time: what is to come and what has been, of every kind, in one order. Pure.

import { eventName } from './format.js';
import { condition, isArmed, isLive, isPending, opensAt, purpose, recurs, schedule, seen, waits } from './timer.js';

/// A moment: `key` (the same thing has the same one), `at`, `kind` (of the history, or `said` for what was said), `title`,
/// `text`, `id`, and where they apply `status`, `role`, `entry`.

/// What is to come, the soonest first.
export function coming({ timers, reminders, sessionTimers, calls }) {
  return [
    ...timers.filter(isLive).flatMap(ofTimer),
    ...reminders.filter(isPending).map((one) =>
      moment('reminder', one.taskId, opensAt(one), one.status === 'due' ? 'Due, waits to be told' : 'Reminder is due', lines(one.task, waits(one)), one.status)),
    ...sessionTimers.filter((one) => isArmed(one) && one.next_trigger_at && !one.suspended).map((one) =>
      moment('session_timer', one.timer_instance_id, opensAt(one), 'Session timer fires', lines(`${one.timer_id} → ${one.tool_name}`, waits(one)), one.status)),
    ...calls.filter((one) => one.next_attempt_at).map((one) =>
      moment('call', one.id, one.next_attempt_at, one.attempts ? 'Called again' : 'Called', one.target, one.status)),
  ].sort((a, b) => a.at - b.at);
}

function ofTimer(timer) {
  const what = purpose(timer);
  const whole = lines(what, recurs(timer) ? schedule(timer) : '', waits(timer), condition(timer), seen(timer));
  const found = recurs(timer) ? times(timer, whole) : [moment('timer', timer.timer_id, opensAt(timer), 'Timer ends', whole, timer.status)];
  if (timer.status === 'paused') found.push(moment('timer', timer.timer_id, timer.pause_until, 'Timer resumes', what, timer.status));
  if (timer.standby_until && timer.standby_until < timer.ends_at) {
    found.push(moment('timer', timer.timer_id, timer.standby_until, 'The waiting call returns', what, timer.status));
  }
  return found;
}

/// The next times of a timer that recurs. What waits for the end of quiet hours fires once for all of them.
function times(timer, whole) {
  const [first, next] = [opensAt(timer), timer.schedule.next?.map((at) => Date.parse(at)) ?? []];
  return [first, ...next.filter((at) => at > first)].map((at, place) =>
    moment('timer', timer.timer_id, at, place ? `Timer fires again (${place + 1})` : 'Timer fires', whole, timer.status));
}

const lines = (...texts) => texts.filter(Boolean).join('\n');

const moment = (kind, id, at, title, text, status) => ({ key: `${kind} ${id} ${title}`, kind, id, at, title, text, status });

/// What has been, the newest first. The history tells what was said, too; what tools answered is in the conversation only.
export function past(entries, conversation) {
  const told = new Set();
  const found = entries.flatMap((entry) => {
    const spoken = said(entry);
    spoken.forEach(({ id }) => told.add(id));
    const words = spoken.map((one, place) => ({ ...utterance(one, entry.at), seq: entry.seq + (place + 1) / 1000 })).reverse();
    if (!spoken.length) return [ofEntry(entry)];
    // What was said stands in its own row.
    return TURNS.includes(entry.event) ? words : [...words, ofEntry({ ...entry, data: { ...entry.data, message: undefined } })];
  });
  const oldest = entries.at(-1)?.at ?? 0;
  const rest = conversation.filter((one) => !told.has(one.id) && one.at >= oldest);
  return [...found, ...rest.map((one) => utterance({ ...one, text: one.content }, one.at))]
    .sort((a, b) => b.at - a.at || (b.seq ?? 0) - (a.seq ?? 0));
}

/// Turns say nothing of their own where it is known what was said in them.
const TURNS = ['session.message', 'session.response'];

function said({ event, data }) {
  if (TURNS.includes(event)) return data?.messages ?? [];
  return event === 'session_timer.triggered' && data?.message?.role ? [data.message] : [];
}

function utterance({ id, role, text, tool_calls: asked = [] }, at) {
  const calls = asked.map((one) => `${one.name ?? one.tool ?? 'tool'}(${shown(one.arguments)})`).join('\n');
  return { key: `said ${id}`, kind: 'said', id, at, role, title: role, text: [text, calls].filter(Boolean).join('\n') };
}

const shown = (value) => (value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value));

const ofEntry = (entry) => ({
  key: `entry ${entry.seq}`,
  kind: entry.kind,
  id: entry.kind === 'session' ? '' : entry.id,
  at: entry.at,
  seq: entry.seq,
  title: eventName(entry.event),
  entry,
});
