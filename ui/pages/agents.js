// Agents that this server runs: how each is configured, which of its timers are armed, what they did last, what failed.

import { callError, callState, failing, isRetrying } from '../lib/calls.js';
import { now, onTick } from '../lib/clock.js';
import { Kept, arrange, debounced, h, say } from '../lib/dom.js';
import { has } from '../lib/features.js';
import { countdown, count, instant, length, plural, time } from '../lib/format.js';
import { home, listen, loads, sessionTimers } from '../lib/model.js';
import { mayOperate } from '../lib/rights.js';
import { segment } from '../lib/server.js';
import { isArmed, opensAt } from '../lib/timer.js';
import { agentConfig } from '../parts/agent-config.js';
import { replayCall } from '../parts/act.js';
import { chip } from '../parts/chip.js';
import { empty, failed, loading } from '../parts/states.js';

/// No page shows more; the others are named.
const AGENTS_MAX = 50;
/// Of all agents together; it says so where there are more.
const FIRINGS_READ = 500;
const SHOWN = 5;
/// Files that change make no event.
const LOOK_AGAIN_MS = 10_000;

export default function build(page) {
  const kept = new Kept();
  const problems = h('div', { role: 'alert', hidden: true });
  const cards = h('div', { class: 'stack' });
  const others = h('div', { class: 'muted others', hidden: true });
  const body = h('div', { class: 'stack' }, loading());
  page.main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Agents')), body);

  async function read(signal) {
    try {
      if (!(await has('/api/agents'))) {
        body.replaceChildren(empty('This server runs no agents of its own.', 'What agents in other programs wait for is under Sessions.'));
        return;
      }
      const [{ agents, problems: wrong = [] }, { entries }, calls] = await Promise.all([
        home.get('/api/agents', {}, signal),
        home.get('/api/history', { event: 'session_timer.triggered', limit: FIRINGS_READ }, signal),
        failing(signal),
      ]);
      const configs = await Promise.all(agents.slice(0, AGENTS_MAX).map((one) => configured(one, signal)));
      if (!signal.aborted) show(configs, entries, calls, wrong, agents.slice(AGENTS_MAX));
    } catch (error) {
      if (!signal.aborted) body.replaceChildren(failed(error));
    }
  }

  function show(agents, entries, calls, wrong, more) {
    problems.hidden = !wrong.length;
    problems.replaceChildren(...(wrong.length ? [h('div', { class: 'notice' }, h('p', { class: 'empty-title' }, 'The configuration as it is now is not in force; the last good one is.'), ...wrong.map((why) => h('p', { class: 'pre' }, why)))] : []));
    others.hidden = !more.length;
    others.replaceChildren(...(more.length ? [h('p', {}, `and ${plural(more.length, 'more agent')}, of which only the name is read here:`), h('p', { class: 'pre' }, more.map(({ agent }) => agent).join('\n'))] : []));
    const rows = kept.rows(agents, card);
    rows.forEach((row, at) => row.show(doingsOf(agents[at], entries, calls)));
    arrange(cards, rows);
    arrange(body, [problems, agents.length ? cards : empty('No agents are configured.', 'They come from the configuration file or PUT /api/agents/{tenant}/{chatbot}.'), others]);
  }

  const load = loads(page, read);
  const again = debounced(load, 300, 1200);
  const looking = setInterval(() => document.hidden || load(), LOOK_AGAIN_MS);
  listen(page, sessionTimers(), 'change', again);
  page.undo.push(
    () => clearInterval(looking),
    home.onEvent((entry) => entry.kind === 'call' && again()),
    onTick((at) => cards.querySelectorAll('.countdown').forEach((one) => say(one, countdown(Number(one.dataset.at) - at)))));
}

/// One that makes no sense any more is shown with what is wrong, and hides none of the others.
async function configured({ agent, origin }, signal) {
  const [tenant, ...chatbot] = agent.split(':');
  try {
    return { agent, origin, config: await home.get(`/api/agents/${segment(tenant)}/${segment(chatbot.join(':'))}`, {}, signal) };
  } catch (error) {
    return { agent, origin, wrong: error.message };
  }
}

function doingsOf({ agent, config, origin }, entries, calls) {
  const armed = [...sessionTimers().items.values()].filter((timer) => timer.agent === agent && isArmed(timer));
  armed.sort((a, b) => (a.next_trigger_at ?? Infinity) - (b.next_trigger_at ?? Infinity));
  const firings = entries.filter(({ data }) => data?.agent === agent);
  const errors = calls.filter((call) => call.agent === agent);
  const retried = errors.filter(isRetrying).length;
  const fired = entries.length < FIRINGS_READ ? plural(firings.length, 'firing') : `${count(firings.length)} of the last ${count(FIRINGS_READ)} firings`;
  return {
    facts: [config?.model ?? 'no model', `from ${origin === 'file' ? 'the configuration' : 'the API'}`, `${plural(armed.length, 'timer')} armed`, fired],
    failed: [retried && `${plural(retried, 'call')} failing`, errors.length > retried && plural(errors.length - retried, 'failed call')].filter(Boolean).join(', '),
    armed: armed.slice(0, SHOWN),
    firings: firings.slice(0, SHOWN),
    errors: errors.slice(0, SHOWN),
  };
}

/// What it is stays in the page for as long as that is the same; what it does is renewed by `show`.
function card({ agent, config, wrong }) {
  const facts = h('p', { class: 'facts' });
  const parts = {
    armed: doings('Armed session timers', armedRow, 'None is armed.'),
    firings: doings('Last firings', firingRow, 'None has fired yet.'),
    errors: doings('Failed calls', errorRow, 'None failed.'),
  };
  const made = h('article', { class: 'card agent', 'data-id': agent, 'aria-label': agent },
    h('header', { class: 'agent-head' }, h('h2', {}, agent), facts),
    wrong ? h('div', { class: 'notice' }, h('p', { class: 'empty-title' }, 'Its configuration makes no sense; calls of its tools fail.'), h('p', { class: 'pre' }, wrong)) : null,
    h('div', { class: 'agent-body' },
      config ? agentConfig(config) : null,
      h('div', { class: 'agent-doings' }, Object.values(parts).map(({ element }) => element))));
  made.show = (doing) => {
    facts.replaceChildren(...doing.facts.map((text) => h('span', {}, text)), ...(doing.failed ? [h('span', { class: 'problem' }, doing.failed)] : []));
    for (const [name, part] of Object.entries(parts)) part.show(doing[name]);
  };
  return made;
}

function doings(title, row, none) {
  const kept = new Kept();
  const list = h('ul', { class: 'plain small' });
  const nothing = h('p', { class: 'muted small' }, none);
  return {
    element: h('section', {}, h('h3', {}, title), list, nothing),
    show(items) {
      arrange(list, kept.rows(items, row));
      list.hidden = !items.length;
      nothing.hidden = Boolean(items.length);
    },
  };
}

const sessionLink = (name) => h('a', { class: 'cut', href: `#/sessions/${segment(name)}` }, name);

function armedRow(one) {
  const when = one.suspended ? 'the agent answers' : h('span', { class: 'countdown', 'data-at': opensAt(one), title: new Date(opensAt(one)).toISOString() }, countdown(opensAt(one) - now()));
  return h('li', { class: 'line' }, h('span', { class: 'cut' }, one.timer_id), sessionLink(one.session), h('span', { class: 'end' }, when));
}

function firingRow({ at, session, data }) {
  return h('li', { class: 'line' }, h('span', { class: 'cut' }, `${data.timer_id} → ${data.tool_name}`), sessionLink(session),
    h('span', { class: 'end muted' }, data.lateness_ms >= 1000 ? `${length(data.lateness_ms / 1000)} late, ` : '', time(at, now())));
}

function errorRow(one) {
  const again = isRetrying(one)
    ? h('span', { class: 'muted nowrap' }, one.next_attempt_at ? `next ${instant(one.next_attempt_at, now())}` : '')
    : mayOperate() && h('button', { class: 'button', type: 'button', onclick: () => replayCall(one) }, 'Try again');
  const why = [callError(one), plural(one.attempts, 'attempt')].filter(Boolean).join(', ');
  return h('li', {}, chip(callState(one)), sessionLink(one.session), h('span', { class: 'end muted' }, time(one.created_at, now())),
    h('code', { class: 'whole' }, one.target), h('div', { class: 'whole error-line' }, h('p', { class: 'problem grow' }, why), again));
}
