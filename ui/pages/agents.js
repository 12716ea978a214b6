// Agents that this server runs: their configuration, their session timers, and what those did last.

import { now } from '../lib/clock.js';
import { debounced, h } from '../lib/dom.js';
import { has } from '../lib/features.js';
import { length, plural, time } from '../lib/format.js';
import { home, listen, sessionTimers } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { chip } from '../parts/chip.js';
import { empty, failed, loading, section } from '../parts/states.js';

const CALLS_SHOWN = 30;
const TIMERS_SHOWN = 30;

export default function build(page) {
  const body = h('div', { class: 'stack' }, loading());
  page.main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Agents')), body);

  async function load() {
    try {
      if (!(await has('/api/agents'))) {
        body.replaceChildren(empty('This server runs no agents of its own.', 'What agents in other programs wait for is under Sessions.'));
        return;
      }
      const { agents, problem } = await home.get('/api/agents');
      const [configs, { calls }] = await Promise.all([Promise.all(agents.map(read)), home.get('/api/calls', { limit: CALLS_SHOWN })]);
      show(configs, calls, problem);
    } catch (error) {
      body.replaceChildren(failed(error));
    }
  }

  function show(configs, calls, problem) {
    const armed = [...sessionTimers().items.values()].filter((one) => one.next_trigger_at).sort((a, b) => a.next_trigger_at - b.next_trigger_at);
    body.replaceChildren(
      problem ? h('p', { class: 'problem', role: 'alert' }, problem) : '',
      configs.length ? h('div', { class: 'cards' }, configs.map(card)) : empty('No agents are configured.', 'They come from the configuration file or PUT /api/agents/{tenant}/{chatbot}.'),
      section('Armed session timers', armed.length ? h('ul', { class: 'plain' }, armed.slice(0, TIMERS_SHOWN).map(timer)) : empty('None is armed.')),
      section('Latest firings and calls', calls.length ? h('ul', { class: 'plain' }, calls.map(call)) : empty('Nothing was called yet.')));
  }

  const again = debounced(load, 300, 1200);
  listen(page, sessionTimers(), 'change', again);
  page.undo.push(home.onEvent((entry) => entry.kind === 'call' && again()));
  load();
}

async function read({ agent, origin }) {
  const [tenant, ...chatbot] = agent.split(':');
  return { origin, ...(await home.get(`/api/agents/${segment(tenant)}/${segment(chatbot.join(':'))}`)) };
}

function card({ agent, origin, model, timers = [], tools = [], system_prompt: prompt }) {
  return h('article', { class: 'card', 'data-id': agent },
    h('h2', {}, agent),
    h('p', { class: 'facts' }, h('span', {}, model || 'no model'), h('span', {}, plural(tools.length, 'tool')), h('span', {}, plural(timers.length, 'session timer')), h('span', {}, `from ${origin === 'file' ? 'the configuration' : 'the API'}`)),
    timers.length ? h('ul', { class: 'plain' }, timers.map((one) => h('li', {},
      h('span', { class: 'grow' }, one.timer_id, ' → ', h('code', {}, one.tool_name)),
      h('span', { class: 'muted' }, `after ${length(one.delay_seconds)}, ${one.max_triggers ? `at most ${one.max_triggers}×` : 'again and again'}`)))) : null,
    tools.length ? h('p', { class: 'muted' }, tools.map((tool) => tool.name).join(', ')) : null,
    prompt ? h('details', {}, h('summary', {}, 'System prompt'), h('p', { class: 'pre' }, prompt)) : null);
}

const sessionLink = (name) => h('a', { href: `#/sessions/${segment(name)}` }, name);

function timer(one) {
  return h('li', {}, chip(one.suspended ? 'suspended' : one.status), sessionLink(one.session),
    h('span', { class: 'grow' }, one.timer_id, ' → ', h('code', {}, one.tool_name)), h('span', { class: 'muted' }, one.agent, ' ', time(one.next_trigger_at, now())));
}

function call(one) {
  return h('li', {}, chip(one.status), sessionLink(one.session), h('code', { class: 'grow' }, one.target),
    one.last_error ? h('span', { class: 'problem' }, one.last_error) : null, h('span', { class: 'muted' }, plural(one.attempts, 'attempt'), ' ', time(one.created_at, now())));
}
