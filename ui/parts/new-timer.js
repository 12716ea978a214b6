// The form for a new timer: an agent is woken with a mission after a length of time.

import { segment } from '../lib/server.js';
import { home } from '../lib/model.js';
import { announce } from './announce.js';
import { ask } from './dialog.js';

export function newTimer(session = '') {
  ask({
    title: 'New timer',
    intro: 'When the time is over, a message with the mission wakes the agent of this session.',
    fields: [
      { name: 'session', label: 'Session', required: true, value: session, hint: 'The conversation whose agent is woken; a new name makes a new one.' },
      { name: 'total_duration', label: 'After', required: true, value: '5m', hint: 'Seconds, or text such as 90s, 10m, 1h30m.' },
      { name: 'mission', label: 'Mission', required: true, lines: 3, placeholder: 'What the agent shall do then' },
    ],
    confirm: 'Set the timer',
    submit: async (values) => {
      const made = await home.post('/api/timers', values);
      announce(`${made.timer_id} is set`);
    },
  });
}

export function closeSession(name) {
  ask({
    title: `Close ${name}`,
    intro: 'Its live timers are stopped, its reminders cancelled, and calls that stand by return. A new timer opens it again.',
    fields: [],
    confirm: 'Close the session',
    danger: true,
    submit: async () => {
      const closed = await home.delete(`/api/sessions/${segment(name)}`);
      announce(`${name} is closed: ${closed.stopped} stopped, ${closed.cancelled} cancelled`);
    },
  });
}
