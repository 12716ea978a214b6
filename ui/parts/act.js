// Stop, cancel, pause, resume: the words for them, the questions before them, and the requests.

import { home } from '../lib/model.js';
import { mayOperate } from '../lib/rights.js';
import { segment } from '../lib/server.js';
import { actions, purpose } from '../lib/timer.js';
import { announce, complain } from './announce.js';
import { ask } from './dialog.js';
import { WORDS } from './words.js';

const REASON = { name: 'reason', label: 'Reason', hint: 'Optional. The agent sees it.', placeholder: 'because …' };
const LENGTH = { name: 'pause_duration', label: 'For how long', required: true, value: '5m', hint: 'Seconds, or text such as 90s, 10m, 1h30m.' };

/// A reminder is simply cancelled: it can be set again.
export async function cancelReminder({ taskId }) {
  try {
    await home.post(`/api/reminders/${segment(taskId)}/cancel`);
    announce(`${taskId} is cancelled`);
  } catch (error) {
    complain(error);
  }
}

/// A call that was given up, once more.
export async function replayCall({ id, target }) {
  try {
    await home.post(`/api/calls/${segment(id)}/replay`);
    announce(`${target} is called again`);
  } catch (error) {
    complain(error);
  }
}

/// What may be asked of a timer in its state, by whoever has signed in.
export const offered = (timer) => (mayOperate() ? actions(timer) : []);

/// Asks what has to be asked and does it.
export function act(server, timer, action) {
  const { label, done, intro } = WORDS[action];
  const what = purpose(timer);
  ask({
    title: `${label}: ${what.length > 60 ? `${what.slice(0, 60)}…` : what}`,
    intro,
    fields: action === 'pause' ? [LENGTH, REASON] : [REASON],
    confirm: label,
    danger: action === 'stop',
    submit: async (values) => {
      const body = Object.fromEntries(Object.entries(values).filter(([, value]) => value));
      await server.post(`/api/timers/${segment(timer.timer_id)}/${action}`, body);
      announce(`${timer.timer_id} ${done}`);
    },
  });
}
