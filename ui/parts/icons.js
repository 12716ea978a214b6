// Line icons, drawn on a grid of 20. Always decoration: the words beside them, or a label, say what is meant.

import { svg } from '../lib/dom.js';

const PATHS = {
  overview: 'M3 10.5 10 4l7 6.5M5.5 9v7h9V9',
  timers: 'M10 6v4.5l3 2M10 3a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15M8 1h4',
  sessions: 'M3.5 4.5h13v9h-7l-3.5 3v-3H3.5z',
  reminders: 'M5 13.5V9a5 5 0 0 1 10 0v4.5l1.5 1.5h-13zM8.5 17.5h3',
  agents: 'M5 8h10v8H5zM10 8V4.5M10 4.5h.01M7.8 11.5v1M12.2 11.5v1',
  history: 'M4 4v4h4M4.4 8a6.5 6.5 0 1 1-.6 4M10 6.5V10l2.5 2',
  statistics: 'M4 16V9M8 16V4M12 16v-5M16 16V7',
  deliveries: 'M3 10 17 4l-4 13-3-5.5zM10 11.5 17 4',
  pause: 'M7 4.5v11M13 4.5v11',
  resume: 'M6.5 4.5v11l9-5.5z',
  stop: 'M5.5 5.5h9v9h-9z',
  cancel: 'M3.5 3.5h9.5v9.5H3.5zM16.5 7.5v9h-9',
  quiet: 'M15.5 12.5A6.5 6.5 0 0 1 7.5 4.5a6.5 6.5 0 1 0 8 8',
  leave: 'M8 4H4v12h4M8.5 10H17M13.5 6.5 17 10l-3.5 3.5',
  plus: 'M10 4v12M4 10h12',
  close: 'M5 5l10 10M15 5 5 15',
  wake: 'M3 15h14M6 15a4 4 0 0 1 8 0M10 5v3M4.5 8.5 6.3 10M15.5 8.5 13.7 10',
  check: 'M4.5 10.5 8.5 14.5 15.5 6',
  download: 'M10 3v9M6 8.5l4 4 4-4M4 16.5h12',
  more: 'M5 10h.01M10 10h.01M15 10h.01',
};

export function icon(name) {
  const path = svg('path', { d: PATHS[name] });
  return svg('svg', { class: 'icon', viewBox: '0 0 20 20', 'aria-hidden': 'true', focusable: 'false' }, path);
}
