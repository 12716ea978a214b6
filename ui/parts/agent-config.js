// How an agent is configured, for people to read. Secrets do not leave the server.

import { h } from '../lib/dom.js';
import { length, plural } from '../lib/format.js';

export function agentConfig({ timers = [], tools = [], webhooks = [], limits, protocol, system_prompt: prompt, system_actions: silent = [], agent_actions: told = [] }) {
  return h('div', { class: 'agent-config' },
    part('session timer', timers, timer),
    part('tool', tools, (one) => tool(one, silent, told)),
    part('webhook', webhooks, ({ url }) => h('li', {}, h('code', { class: 'cut' }, url))),
    h('section', {}, h('h3', {}, 'Limits'), h('dl', { class: 'pairs' }, [
      ['messages in context', limits.context_messages], ['rounds of tools', limits.tool_rounds], ['second turn waits', length(limits.turn_wait_seconds)], ['speaks', protocol],
    ].filter(([, value]) => value !== undefined).flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, String(value))]))),
    prompt ? h('details', {}, h('summary', {}, 'System prompt'), h('p', { class: 'pre small' }, prompt)) : null);
}

function part(name, items, row) {
  if (!items.length) return null;
  return h('section', {}, h('h3', {}, plural(items.length, name)), h('ul', { class: 'plain small' }, items.map(row)));
}

function timer(one) {
  const often = one.max_triggers ? `at most ${one.max_triggers}×${one.reset === 'on_message' ? ' after each message' : ''}` : 'again and again';
  const says = one.message ?? (one.tool_params && Object.keys(one.tool_params).length ? JSON.stringify(one.tool_params) : '');
  return h('li', {}, h('span', { class: 'cut' }, one.timer_id, ' → ', h('code', {}, one.tool_name)),
    h('span', { class: 'end muted' }, `after ${length(one.delay_seconds)}, ${often}`), says ? h('p', { class: 'muted whole' }, says) : null);
}

function tool({ name, description, endpoint, parameters, closes_session: closes }, silent, told) {
  const kind = [silent.includes(name) && 'system action', told.includes(name) && 'agent action', (closes || name === 'close_conversation') && 'closes the session'].filter(Boolean);
  const headers = Object.entries(endpoint?.headers ?? {}).map(([key, value]) => `${key}: ${value}`).join('\n');
  return h('li', {}, h('code', { class: 'cut' }, name), h('span', { class: 'end muted' }, kind.join(', ')),
    description ? h('p', { class: 'muted whole' }, description) : null,
    endpoint ? h('p', { class: 'whole' }, h('code', {}, `${endpoint.method ?? 'POST'} ${endpoint.url}`), endpoint.timeout === undefined ? '' : h('span', { class: 'muted' }, ` within ${waits(endpoint.timeout)}`)) : null,
    headers || parameters ? h('details', { class: 'whole' }, h('summary', {}, [headers && 'Headers', parameters && 'Parameters'].filter(Boolean).join(' and ')),
      h('pre', { class: 'pre small', tabindex: '0', 'aria-label': `Headers and parameters of ${name}` }, [headers, parameters && JSON.stringify(parameters, null, 2)].filter(Boolean).join('\n\n'))) : null);
}

const waits = (timeout) => (typeof timeout === 'number' ? length(timeout) : String(timeout));
