// One entry of the history, said in a few words.

import { length, plural } from '../lib/format.js';
import { quietWords } from './quiet.js';

export function entryText({ data, event }) {
  if (!data) return '';
  if (event === 'session.quiet') return data.quiet ? quietWords(data.quiet) : 'no quiet hours of its own';
  const said = [];
  const add = (value, words = (one) => one) => value !== undefined && value !== null && value !== '' && said.push(words(value));
  add(data.mission ?? data.reason ?? data.task);
  if (data.tool_name) said.push(`${data.timer_id} → ${data.tool_name}`);
  else add(data.target);
  // What ended says it in the second line of its message.
  add(data.message?.text, (text) => text.split('\n')[1] ?? text);
  for (const message of data.messages ?? []) add(message?.text);
  add(data.stop_reason, (why) => `because ${why}`);
  if (event === 'timer.created') said.push(data.schedule ?? `for ${length(data.total_duration)}`);
  else add(data.remaining_time, (left) => `${length(left)} left`);
  add(data.slept, (slept) => `slept ${length(slept)}`);
  add(data.lateness_ms, (late) => `${late} ms late`);
  add(data.attempts, (attempts) => plural(attempts, 'attempt'));
  if (typeof data.status === 'number' && !data.error) said.push(`answered ${data.status}`);
  add(data.error);
  add(data.channel, (channel) => `by ${channel}`);
  add(data.rule);
  add(data.exit, (code) => `exit ${code}`);
  if (event === 'message.delivered') add(data.text, (text) => text.split('\n')[0]);
  if (event === 'session.closed') said.push(`${data.stopped} stopped, ${data.cancelled} cancelled`);
  if (!said.length) said.push(...Object.entries(data).map(([key, value]) => `${key}: ${typeof value === 'object' ? JSON.stringify(value) : value}`));
  return said.join(' · ');
}
