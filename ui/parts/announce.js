// What is said aloud and shown for a moment: results of what the user did, and messages as they come.

import { h } from '../lib/dom.js';

const SHOWN_MS = 5000;
const SHOWN_MAX = 3;

const region = h('div', { class: 'toasts', role: 'status', 'aria-live': 'polite' });
document.body.append(region);

export function announce(text, kind = 'done') {
  const toast = h('p', { class: 'toast', 'data-kind': kind }, text);
  region.append(toast);
  while (region.children.length > SHOWN_MAX) region.firstChild.remove();
  setTimeout(() => toast.remove(), SHOWN_MS);
}

export const complain = (error) => announce(error.message, 'error');
