// What stands where nothing can be shown yet, or at all.

import { h } from '../lib/dom.js';

export const loading = () => h('p', { class: 'empty', role: 'status' }, 'Loading …');

export const failed = (error) => h('p', { class: 'empty problem', role: 'alert' }, error.message);

export function empty(title, detail) {
  return h('div', { class: 'empty' }, h('p', { class: 'empty-title' }, title), detail && h('p', {}, detail));
}

export function section(title, ...content) {
  return h('section', { class: 'section' }, h('h2', {}, title), content);
}
