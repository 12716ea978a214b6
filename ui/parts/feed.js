// What agents were told, as rows of a chat: begun with the latest, then each as it comes.

import { h } from '../lib/dom.js';
import { home, loads } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { now } from '../lib/clock.js';
import { time } from '../lib/format.js';
import { delivered } from '../elements/reveille-message.js';

const EVENTS = ['timer.completed', 'timer.fired', 'reminder.due', 'message.delivered', 'message.withdrawn'];
const KEPT = 30;

/// `session`: only this one's. `limit`: how many there are at the beginning.
export function feed(page, { session, limit = 8 } = {}) {
  const list = h('div', { class: 'feed', role: 'log', 'aria-label': 'Messages' });
  const none = h('p', { class: 'empty' }, 'No messages yet. They appear here as they come.');
  const element = h('div', {}, none, list);
  const rows = () => [...list.children];

  function add(entry) {
    if (session && entry.session !== session) return;
    if (entry.event === 'message.withdrawn') rows().find((row) => row.dataset.id === entry.id)?.remove();
    const message = delivered(entry);
    if (!message) return;
    const known = rows().find((row) => row.dataset.id === message.id);
    if (Number(known?.dataset.seq) >= entry.seq) return;
    known?.remove();
    // A page that is read late brings older ones than those that came live.
    list.insertBefore(rowOf(entry, message), rows().find((row) => Number(row.dataset.seq) < entry.seq) ?? null);
    while (list.children.length > KEPT) list.lastChild.remove();
    none.hidden = true;
  }

  async function load() {
    const pages = await Promise.all(EVENTS.map((event) => home.get('/api/history', { event, session, limit })));
    // Older than what one of the pages reaches back to, it is not known what became of a message.
    const reach = pages.filter(({ entries }) => entries.length === limit).map(({ entries }) => entries.at(-1).seq);
    const entries = pages.flatMap((found) => found.entries).filter(({ seq }) => seq >= Math.max(0, ...reach));
    entries.sort((a, b) => a.seq - b.seq).forEach(add);
  }

  page.undo.push(home.onEvent(add));
  loads(page, () => load().catch(() => {}));
  return element;
}

function rowOf(entry, { id, text, channel, at }) {
  const [first, ...rest] = text.split('\n');
  return h('article', { class: 'said', 'data-id': id, 'data-seq': entry.seq, 'data-told': Boolean(channel) },
    h('header', {},
      h('a', { href: `#/sessions/${segment(entry.session)}` }, entry.session),
      h('span', { class: 'said-how' }, channel ? `told by ${channel}` : 'waits in the inbox'),
      time(at, now())),
    h('p', { class: 'said-first' }, first),
    rest.length ? h('p', { class: 'said-rest' }, rest.join('\n')) : null);
}
