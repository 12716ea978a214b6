// A state as a word in its colour. The word alone says it; the colour helps.

import { attr, h, say } from '../lib/dom.js';
import { statusName } from '../lib/format.js';

export function chip(status) {
  return setChip(h('span', { class: 'chip' }), status);
}

export function setChip(element, status) {
  attr(element, 'data-status', status);
  say(element, statusName(status ?? ''));
  return element;
}
