// The forms for what people set themselves: a timer, a reminder; and the one that closes a session.

import { segment } from '../lib/server.js';
import { home } from '../lib/model.js';
import { announce } from './announce.js';
import { ask } from './dialog.js';

const SESSION = { name: 'session', label: 'Session', required: true, hint: 'The conversation whose agent is meant; a new name makes a new one.' };
const LENGTH_HINT = 'Seconds, or text such as 90s, 10m, 1h30m.';

/// What a timer may wait for besides its time.
const CONDITIONS = [
  ['', 'Only then'], ['http', 'Or as soon as a URL answers'], ['tcp', 'Or as soon as a port takes connections'], ['exists', 'Or as soon as a file exists'],
  ['gone', 'Or as soon as a file is gone'], ['changed', 'Or as soon as a file changes'], ['contains', 'Or as soon as a file contains a text'],
  ['process', 'Or as soon as a process ends'], ['command', 'Or as soon as a command exits with 0'],
];
const FILES = ['exists', 'gone', 'changed', 'contains'];
const CATCH_UP = [['latest', 'Tell the last one'], ['skip', 'Tell none of them'], ['all', 'Tell each of them']];

export function newTimer(session = '') {
  ask({
    title: 'New timer',
    intro: 'When the time is over, a message with the mission wakes the agent of this session.',
    fields: [
      { ...SESSION, value: session },
      { name: 'when', label: 'When', value: 'after', options: [['after', 'After a length of time'], ['at', 'At a time'], ['every', 'Again and again']] },
      { name: 'total_duration', label: 'After', only: ['when', 'after'], required: true, value: '5m', hint: LENGTH_HINT },
      { name: 'until', label: 'Until then', only: ['when', 'after'], options: CONDITIONS },
      { name: 'http', label: 'URL', only: ['until', 'http'], required: true, placeholder: 'http://localhost:3000/', hint: 'The server asks for it; nobody else has to.' },
      { name: 'status', label: 'Status', only: ['until', 'http'], type: 'number', min: 100, placeholder: 'any below 400' },
      { name: 'body_matches', label: 'Body', only: ['until', 'http'], placeholder: 'any', hint: 'Optional: a regular expression that it matches.' },
      { name: 'tcp', label: 'Address', only: ['until', 'tcp'], required: true, placeholder: 'localhost:5432' },
      { name: 'file', label: 'File', only: ['until', ...FILES], required: true, placeholder: '/home/me/build.log', hint: 'Where it is on the machine of the server.' },
      { name: 'contains', label: 'Text', only: ['until', 'contains'], required: true, placeholder: 'BUILD SUCCESSFUL' },
      { name: 'process', label: 'Number of the process', only: ['until', 'process'], required: true, type: 'number', min: 1 },
      { name: 'command', label: 'Command', only: ['until', 'command'], required: true, placeholder: 'test -s results.json', hint: 'Run by sh, if the server allows it (until.commands).' },
      { name: 'at', label: 'At', only: ['when', 'at'], required: true, placeholder: '16:00', hint: 'The next 16:00, or a date and time such as 2026-11-20T16:00.' },
      { name: 'every', label: 'Every', only: ['when', 'every'], required: true, placeholder: '0 9 * * 1-5', hint: 'An interval such as 1h, or cron fields: minute hour day month weekday.' },
      { name: 'max_fires', label: 'At most', only: ['when', 'every'], type: 'number', min: 1, placeholder: 'no limit', hint: 'Optional: so many times.' },
      { name: 'catch_up', label: 'Times that pass while the server is down', only: ['when', 'every'], value: 'latest', options: CATCH_UP },
      { name: 'zone', label: 'Time zone', only: ['when', 'at', 'every'], value: Intl.DateTimeFormat().resolvedOptions().timeZone ?? 'UTC', hint: 'Whose clocks and calendar are meant.' },
      { name: 'mission', label: 'Mission', required: true, lines: 3, placeholder: 'What the agent shall do then' },
    ],
    confirm: 'Set the timer',
    submit: async ({ session: name, mission, total_duration, at, every, zone, max_fires: most, catch_up, ...condition }) => {
      const times = { total_duration, at, every, zone, catch_up, max_fires: most && Number(most) };
      const made = await home.post('/api/timers', given({ session: name, mission, ...times, until: conditionOf(given(condition)) }));
      announce(`${made.timer_id} is set`);
    },
  });
}

/// What was filled in, in the form of the tool; `undefined`: nothing but the time.
function conditionOf({ until, http, status, body_matches, tcp, file, contains, process, command }) {
  switch (until) {
    case 'http': return given({ http, status: status && Number(status), body_matches });
    case 'tcp': return { tcp };
    case 'process': return { process: Number(process) };
    case 'command': return { command: ['sh', '-c', command] };
    case 'exists': return { file };
    case 'gone': return { file, exists: false };
    case 'changed': return { file, changed: true };
    case 'contains': return { file, contains };
    default: return undefined;
  }
}

export function newReminder(session = '') {
  ask({
    title: 'New reminder',
    intro: 'From the minute before it is due, it is told with whatever the agent of this session asks or is answered next.',
    fields: [
      { ...SESSION, value: session },
      { name: 'task', label: 'Task', required: true, lines: 2, placeholder: 'What the agent shall be reminded of' },
      { name: 'when', label: 'Due', value: 'in', options: [['in', 'After a length of time'], ['at', 'At a date and time']] },
      { name: 'in', label: 'In', only: ['when', 'in'], required: true, value: '10m', hint: LENGTH_HINT },
      { name: 'dueAt', label: 'At', only: ['when', 'at'], required: true, type: 'datetime-local', hint: 'In your own time zone.' },
      { name: 'tool', label: 'Tool', placeholder: 'Optional: the tool it shall use' },
    ],
    confirm: 'Set the reminder',
    submit: async ({ when, ...values }) => {
      const dueAt = values.dueAt && new Date(values.dueAt).toISOString();
      const made = await home.post('/api/reminders', given({ ...values, dueAt }));
      announce(`${made.taskId} is set`);
    },
  });
}

/// Without what was left empty.
const given = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== ''));

export function closeSession(name) {
  ask({
    title: `Close ${name}`,
    intro: 'Its live timers are stopped, its reminders and session timers cancelled, and calls that stand by return. A new timer opens it again.',
    fields: [],
    confirm: 'Close the session',
    danger: true,
    submit: async () => {
      const closed = await home.delete(`/api/sessions/${segment(name)}`);
      announce(`${name} is closed: ${closed.stopped} stopped, ${closed.cancelled + closed.session_timers} cancelled`);
    },
  });
}
