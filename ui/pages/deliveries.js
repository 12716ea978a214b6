// How messages reached their agents, which commands were run to wake them, and what failed.

import { now } from '../lib/clock.js';
import { debounced, h } from '../lib/dom.js';
import { has } from '../lib/features.js';
import { length, plural, time } from '../lib/format.js';
import { home } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { announce, complain } from '../parts/announce.js';
import { chip } from '../parts/chip.js';
import { filterBar } from '../parts/filter.js';
import { empty, failed, loading } from '../parts/states.js';

const CHOICES = [['all', 'All'], ['message', 'Messages'], ['wake', 'Wake commands'], ['webhook', 'Webhooks'], ['tool', 'Tools'], ['failed', 'Failures']];
const CHIPS = { given_up: 'failed', done: 'delivered' };
const SHOWN = 300;

export default function build(page) {
  let deliveries = [];
  const filter = filterBar({ label: 'Search deliveries', choices: CHOICES, change: update });
  const body = h('div', { class: 'deliveries' }, loading());
  page.main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Deliveries')), filter.element, body);

  async function load() {
    try {
      const [told, called] = await Promise.all([home.get('/api/deliveries', { limit: SHOWN }), calls()]);
      deliveries = [...told.deliveries, ...called].sort((a, b) => b.at - a.at);
      update();
    } catch (error) {
      body.replaceChildren(failed(error));
    }
  }

  function update() {
    const { text, choice } = filter.state;
    const shown = deliveries.filter((one) =>
      (choice === 'all' || (choice === 'failed' ? ['failed', 'given_up'].includes(one.outcome) : one.kind === choice))
      && (!text || `${one.session} ${one.channel} ${one.text ?? ''} ${one.output ?? ''}`.toLowerCase().includes(text)));
    filter.count(plural(shown.length, 'delivery', 'deliveries'));
    body.replaceChildren(shown.length ? h('ul', { class: 'plain' }, shown.map(row)) : empty('No deliveries here.'));
  }

  const again = debounced(load, 200, 800);
  page.undo.push(home.onEvent((entry) => /^(message|wake|call)\./.test(entry.event) && again()));
  load();
}

/// Webhooks and tools that agents of this server call, in the form of deliveries.
async function calls() {
  if (!(await has('/api/calls'))) return [];
  const found = await home.get('/api/calls', { limit: SHOWN });
  return found.calls.map((call) => ({
    at: call.created_at,
    session: call.session,
    kind: call.kind,
    channel: `${call.kind}:${call.target}`,
    outcome: call.status,
    attempt: call.attempts,
    output: [call.last_status && `answered ${call.last_status}`, call.last_error].filter(Boolean).join(', '),
    replay: `/api/calls/${segment(call.id)}/replay`,
  }));
}

function row(one) {
  const failed_ = ['failed', 'given_up'].includes(one.outcome);
  const note = [
    one.attempt && `attempt ${one.attempt}`,
    one.exit !== undefined && `exit ${one.exit}`,
    one.duration !== undefined && `took ${length(one.duration)}`,
    one.outcome === 'given_up' && 'not tried again',
  ].filter(Boolean).join(' · ');
  return h('li', { class: 'delivery' },
    h('div', { class: 'delivery-head' },
      chip(CHIPS[one.outcome] ?? one.outcome), h('code', {}, one.channel),
      h('a', { href: `#/sessions/${segment(one.session)}` }, one.session), h('span', { class: 'muted grow' }, note), time(one.at, now()),
      failed_ ? h('button', { class: 'button', type: 'button', onclick: () => retry(one) }, 'Try again') : null),
    one.text ? h('p', { class: 'delivery-text' }, one.text) : null,
    one.output ? h('pre', { class: 'delivery-output', tabindex: '0', 'aria-label': 'Output of the command' }, one.output) : null);
}

async function retry({ session, replay, channel }) {
  try {
    await home.post(replay ?? `/api/sessions/${segment(session)}/wake`);
    announce(`${channel} is tried again as soon as its rule allows`);
  } catch (error) {
    complain(error);
  }
}
