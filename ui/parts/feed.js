// What agents were told, as rows of a chat: begun with the latest, then each as it comes.

import { h } from '../lib/dom.js';
import { home } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { now } from '../lib/clock.js';
import { time } from '../lib/format.js';
import { delivered } from '../elements/reveille-message.js';

const EVENTS = ['timer.completed', 'reminder.due', 'message.delivered'];
const KEPT = 30;

/// `session`: only this one's. `limit`: how many there are at the beginning.
export function feed(page, { session, limit = 8 } = {}) {
  const list = h('div', { class: 'feed', role: 'log', 'aria-label': 'Messages' });
  const none = h('p', { class: 'empty' }, 'No messages yet. They appear here as they come.');
  const element = h('div', {}, none, list);

  function add(entry) {
    const message = delivered(entry);
    if (!message || (session && entry.session !== session)) return;
    none.hidden = true;
    const row = rowOf(entry, message);
    const known = [...list.children].find((one) => one.dataset.id === message.id);
    if (known && known.dataset.told && !message.channel) return;
    known?.remove();
    list.prepend(row);
    while (list.children.length > KEPT) list.lastChild.remove();
  }

  async function load() {
    const pages = await Promise.all(EVENTS.map((event) => home.get('/api/history', { event, session, limit })));
    const entries = pages.flatMap(({ entries: found }) => found).sort((a, b) => a.seq - b.seq);
    entries.slice(-2 * limit).forEach(add);
    while (list.children.length > limit) list.lastChild.remove();
  }

  page.undo.push(home.onEvent(add));
  load().catch(() => {});
  return element;
}

function rowOf(entry, { id, text, channel, at }) {
  const [first, ...rest] = text.split('\n');
  return h('article', { class: 'said', 'data-id': id, 'data-told': Boolean(channel) },
    h('header', {},
      h('a', { href: `#/sessions/${segment(entry.session)}` }, entry.session),
      h('span', { class: 'said-how' }, channel ? `told by ${channel}` : 'waits in the inbox'),
      time(at, now())),
    h('p', { class: 'said-first' }, first),
    rest.length ? h('p', { class: 'said-rest' }, rest.join('\n')) : null);
}
