// How messages reached their agents, which commands were run to wake them, and what failed.

import { callError, callState, failing } from '../lib/calls.js';
import { now } from '../lib/clock.js';
import { Kept, arrange, debounced, h } from '../lib/dom.js';
import { has } from '../lib/features.js';
import { instant, length, plural, time } from '../lib/format.js';
import { home, loads } from '../lib/model.js';
import { mayOperate } from '../lib/rights.js';
import { segment } from '../lib/server.js';
import { replayCall } from '../parts/act.js';
import { announce, complain } from '../parts/announce.js';
import { chip } from '../parts/chip.js';
import { filterBar } from '../parts/filter.js';
import { empty, failed, loading } from '../parts/states.js';

const CHOICES = [['all', 'All'], ['message', 'Messages'], ['wake', 'Wake commands'], ['webhook', 'Webhooks'], ['tool', 'Tools'], ['failed', 'Failures']];
const CHIPS = { given_up: 'failed', done: 'delivered' };
const SHOWN = 300;
/// Nobody tries it again by itself.
const isFailed = (one) => ['failed', 'given_up'].includes(one.outcome);

export default function build(page) {
  let deliveries = [];
  const none = empty('No deliveries here.');
  const filter = filterBar({ label: 'Search deliveries', choices: CHOICES, change: update });
  const rows = new Kept();
  const list = h('ul', { class: 'plain' });
  const body = h('div', { class: 'deliveries' }, loading());
  page.main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Deliveries')), filter.element, body);

  async function read(signal) {
    try {
      const [told, called] = await Promise.all([home.get('/api/deliveries', { limit: SHOWN }, signal), calls(signal)]);
      if (signal.aborted) return;
      deliveries = [...told.deliveries, ...called].sort((a, b) => b.at - a.at);
      update();
    } catch (error) {
      if (!signal.aborted) body.replaceChildren(failed(error));
    }
  }

  function update() {
    const { text, choice } = filter.state;
    const shown = deliveries.filter((one) =>
      (choice === 'all' || (choice === 'failed' ? isFailed(one) || one.outcome === 'retrying' : one.kind === choice))
      && (!text || `${one.session} ${one.channel} ${one.text ?? ''} ${one.output ?? ''}`.toLowerCase().includes(text)));
    filter.count(plural(shown.length, 'delivery', 'deliveries'));
    arrange(list, rows.rows(shown, row));
    arrange(body, [shown.length ? list : none]);
  }

  const again = debounced(loads(page, read), 200, 800);
  page.undo.push(home.onEvent((entry) => /^(message|wake|call)\./.test(entry.event) && again()));
}

/// Webhooks and tools that agents of this server call, in the form of deliveries.
async function calls(signal) {
  if (!(await has('/api/calls'))) return [];
  // What fails is shown however long ago it began.
  const [{ calls: latest }, broken] = await Promise.all([home.get('/api/calls', { limit: SHOWN }, signal), failing(signal)]);
  const found = new Map([...latest, ...broken].map((call) => [call.id, call]));
  return [...found.values()].map((call) => ({
    at: call.created_at,
    session: call.session,
    kind: call.kind,
    channel: `${call.kind}:${call.target}`,
    outcome: callState(call),
    next: call.next_attempt_at,
    attempt: call.attempts,
    text: call.kind === 'tool' ? JSON.stringify(call.data) : call.data?.type,
    output: callError(call),
    call: { id: call.id, target: call.target },
  }));
}

function row(one) {
  const note = [
    one.attempt && `attempt ${one.attempt}`,
    one.exit !== undefined && `exit ${one.exit}`,
    one.duration !== undefined && `took ${length(one.duration)}`,
    one.outcome === 'given_up' && 'not tried again',
    one.outcome === 'retrying' && one.next && `next attempt ${instant(one.next, now())}`,
  ].filter(Boolean).join(' · ');
  return h('li', { class: 'delivery' },
    h('div', { class: 'delivery-head' },
      chip(CHIPS[one.outcome] ?? one.outcome), h('code', {}, one.channel),
      h('a', { href: `#/sessions/${segment(one.session)}` }, one.session), h('span', { class: 'muted grow' }, note), time(one.at, now()),
      isFailed(one) && mayOperate() ? h('button', { class: 'button', type: 'button', onclick: () => retry(one) }, 'Try again') : null),
    one.text ? h('p', { class: 'delivery-text' }, one.text) : null,
    one.output ? h('pre', { class: 'delivery-output', tabindex: '0', 'aria-label': one.call ? 'What was answered' : 'Output of the command' }, one.output) : null);
}

/// Calls are made again as they were; for a message that nobody could be woken for, its rule runs once more.
async function retry({ session, call, channel }) {
  if (call) {
    await replayCall(call);
    return;
  }
  try {
    await home.post(`/api/sessions/${segment(session)}/wake`);
    announce(`${channel} is tried again as soon as its rule allows`);
  } catch (error) {
    complain(error);
  }
}
