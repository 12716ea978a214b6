// For somebody who has just started the server: what to try first.

import { h } from '../lib/dom.js';
import { mayOperate } from '../lib/rights.js';
import { newTimer } from './new.js';
import { section } from './states.js';

const STEPS = [
  ['Give a coding agent its clock', 'reveille setup claude-code --write', 'codex, gemini, opencode, cursor and cline too. Then say “look at the build in ten minutes”.'],
  ['See what it does', 'reveille demo', 'Half a minute, without a key and without a network.'],
  ['Wait for something yourself', 'reveille timer 1m --reason tea', 'It stands by in the terminal, and appears here.'],
];

export function firstSteps() {
  return section('First steps',
    h('ol', { class: 'steps' }, STEPS.map(([title, command, detail]) =>
      h('li', { class: 'card step' }, h('p', { class: 'empty-title' }, title), h('code', {}, command), h('p', { class: 'hint' }, detail)))),
    mayOperate() && h('p', { class: 'muted' }, 'Or ', h('button', { class: 'button', type: 'button', onclick: () => newTimer('first') }, 'set a timer here'), ' and watch it.'));
}
