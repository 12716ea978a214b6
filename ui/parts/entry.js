// One entry of the history, said in a few words.

import { length } from '../lib/format.js';

export function entryText({ data, event }) {
  if (!data) return '';
  const said = [];
  if (data.mission ?? data.reason ?? data.task) said.push(data.mission ?? data.reason ?? data.task);
  // What ended says it in the second line of its message.
  if (data.message?.text) said.push(data.message.text.split('\n')[1] ?? data.message.text);
  if (data.stop_reason) said.push(`because ${data.stop_reason}`);
  if (event === 'timer.created') said.push(`for ${length(data.total_duration)}`);
  else if (data.remaining_time !== undefined) said.push(`${length(data.remaining_time)} left`);
  if (data.slept !== undefined) said.push(`slept ${length(data.slept)}`);
  if (data.lateness_ms !== undefined) said.push(`${data.lateness_ms} ms late`);
  if (data.channel) said.push(`by ${data.channel}`);
  if (data.rule) said.push(data.rule);
  if (data.exit !== undefined && data.exit !== null) said.push(`exit ${data.exit}`);
  if (event === 'message.delivered' && data.text) said.push(data.text.split('\n')[0]);
  if (event === 'session.closed') said.push(`${data.stopped} stopped, ${data.cancelled} cancelled`);
  if (!said.length) said.push(...Object.entries(data).map(([key, value]) => `${key}: ${typeof value === 'object' ? JSON.stringify(value) : value}`));
  return said.join(' · ');
}
