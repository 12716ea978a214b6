// <reveille-message session="…">: what the system tells a session's agent, each message as it is delivered. One message
// alone: set its `message` property. Attributes: `server`, `token`, `limit` (how many are kept, 20 unless given).

import { now } from '../lib/clock.js';
import { h } from '../lib/dom.js';
import { time } from '../lib/format.js';
import { segment, server } from '../lib/server.js';
import { sheets } from './sheet.js';

/// How many messages are kept unless the page says.
const KEPT = 20;

export class ReveilleMessage extends HTMLElement {
  static observedAttributes = ['session'];
  #undo = [];
  #one = null;
  #list = null;

  connectedCallback() {
    const root = this.shadowRoot ?? this.attachShadow({ mode: 'open' });
    root.adoptedStyleSheets = sheets();
    this.#list = h('div', { class: 'feed', role: 'log', 'aria-label': 'System messages' });
    root.replaceChildren(this.#list);
    if (this.#one) this.#add(this.#one);
    else this.#follow();
  }

  disconnectedCallback() {
    this.#undo.forEach((undo) => undo());
    this.#undo = [];
  }

  attributeChangedCallback(name, old, value) {
    if (!this.isConnected || old === value) return;
    this.disconnectedCallback();
    this.connectedCallback();
  }

  get message() {
    return this.#one;
  }

  set message(message) {
    this.#one = message;
    if (this.isConnected) this.connectedCallback();
  }

  #follow() {
    const session = this.getAttribute('session');
    if (!session) return;
    const from = server(this.getAttribute('server') ?? '', this.getAttribute('token') ?? '');
    const load = () => this.#load(from, session);
    from.addEventListener('back', load);
    this.#undo.push(() => from.removeEventListener('back', load), from.onEvent((entry) => {
      if (entry.session !== session) return;
      if (entry.event === 'message.withdrawn') this.#row(entry.id)?.remove();
      const told = delivered(entry);
      if (told) this.#add(told);
    }));
    load();
  }

  /// What was told last, and what waits.
  async #load(from, session) {
    const list = this.#list;
    try {
      const past = await from.get('/api/history', { session, event: 'message.delivered', limit: this.#limit });
      const { messages } = await from.get(`/api/sessions/${segment(session)}/inbox`);
      if (list !== this.#list) return;
      [...past.entries.reverse().map(delivered), ...messages].forEach((message) => this.#add(message));
    } catch (error) {
      // A session that nobody has used yet has no messages.
      if (error.code !== 'unknown_session') list.append(h('p', { class: 'problem', role: 'alert' }, error.message));
    }
  }

  get #limit() {
    return Number(this.getAttribute('limit')) || KEPT;
  }

  #row(id) {
    return [...this.#list.children].find((row) => row.dataset.id === id);
  }

  #add(message) {
    const known = this.#row(message.id);
    // Told is told, whatever an answer that was under way says.
    if (known?.hasAttribute('data-told') && !message.channel) return;
    const row = h('div', { class: 'message', 'data-id': message.id, 'data-told': Boolean(message.channel) },
      h('div', {},
        h('p', { class: 'text' }, message.text),
        h('p', { class: 'note' }, message.channel ? `delivered by ${message.channel}, ` : 'waiting in the inbox, ', time(message.at ?? message.created_at, now()))));
    if (known) known.replaceWith(row);
    else this.#list.append(row);
    while (this.#list.children.length > this.#limit) this.#list.firstChild.remove();
  }
}

/// The message that a history entry speaks of, if it does. What an agent said to its user is none: that has no kind.
export function delivered(entry) {
  const { event, data, at } = entry;
  if (event === 'message.delivered') return { id: entry.id, text: data.text, channel: data.channel, at };
  if (data?.message?.kind) return { id: data.message.id, text: data.message.text, at };
  return null;
}
