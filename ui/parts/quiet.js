// Quiet hours of a session: in words, and the form that sets them or takes them away.

import { home } from '../lib/model.js';
import { announce } from './announce.js';
import { ask } from './dialog.js';

/// `22:00 to 08:00 (Europe/Berlin), mon, tue`; several after one another; nothing where there are none.
export function quietWords(stretches = []) {
  return stretches.map(({ from, to, zone, days }) => `${from} to ${to} (${zone})${days?.length ? `, ${days.join(', ')}` : ''}`).join('; ');
}

/// `own`: those that it has now.
export function setQuiet(path, session, own = []) {
  const [first = {}] = own;
  ask({
    title: `Quiet hours of ${session}`,
    intro: own.length > 1 ? `It has several: ${quietWords(own)}. What is set here takes their place.` : 'What falls due within them waits for their end. Who stands by is told at once.',
    fields: [
      { name: 'which', label: 'Quiet', value: 'set', options: [['set', 'From one time of day to another'], ...(own.length ? [['none', 'No hours of its own']] : [])] },
      { name: 'from', label: 'From', only: ['which', 'set'], type: 'time', required: true, value: first.from ?? '22:00' },
      { name: 'to', label: 'To', only: ['which', 'set'], type: 'time', required: true, value: first.to ?? '08:00', hint: 'Where that is earlier, on the next day.' },
      { name: 'days', label: 'On', only: ['which', 'set'], value: first.days?.join(', ') ?? '', placeholder: 'every day', hint: 'Optional: the days on which they begin, such as mon, tue, weekdays or weekend.' },
      { name: 'zone', label: 'Time zone', only: ['which', 'set'], required: true, value: first.zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone ?? 'UTC', hint: 'Whose clocks are meant.' },
    ],
    confirm: 'Save',
    submit: async ({ which, days, ...values }) => {
      const on = days?.split(',').map((day) => day.trim()).filter(Boolean) ?? [];
      if (which === 'none') await home.delete(`${path}/quiet`);
      else await home.put(`${path}/quiet`, on.length ? { ...values, days: on } : values);
      announce(which === 'none' ? `${session} has no quiet hours of its own` : `${session} is quiet from ${values.from} to ${values.to}`);
    },
  });
}
