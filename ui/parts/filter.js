// The line above a list: search, a choice of states, and how many there are.

import { debounced, h, say, uniqueId } from '../lib/dom.js';

const TYPING_MS = 120;

/// `choices`: `[value, label]`; the first is the one at the beginning. `change` is called with `{text, choice}`.
export function filterBar({ label, choices, change, extra }) {
  const state = { text: '', choice: choices[0][0] };
  const tell = debounced(() => change(state), TYPING_MS);
  const id = uniqueId('search');
  const input = h('input', { id, type: 'search', class: 'search', placeholder: 'Search', 'aria-keyshortcuts': '/', autocomplete: 'off' });
  input.addEventListener('input', () => {
    state.text = input.value.trim().toLowerCase();
    tell();
  });
  const buttons = choices.map(([value, text]) =>
    h('button', { type: 'button', class: 'segment', 'aria-pressed': String(value === state.choice), onclick: () => choose(value) }, text));
  function choose(value) {
    state.choice = value;
    choices.forEach(([one], at) => buttons[at].setAttribute('aria-pressed', String(one === value)));
    change(state);
  }
  const total = h('span', { class: 'filter-count', role: 'status' });
  const element = h('div', { class: 'filter' },
    h('label', { for: id, class: 'visually-hidden' }, label), input,
    h('div', { class: 'segments', role: 'group', 'aria-label': 'Show' }, buttons), total, extra);
  return { element, state, input, choose, count: (text) => say(total, text) };
}
