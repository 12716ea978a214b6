// <reveille-message session="…">: what the system tells a session's agent, each message as it is delivered. One message
// alone: set its `message` property. Attributes: `server`, `token`, `limit` (how many are kept, 20 unless given).

import { now } from '../lib/clock.js';
import { h } from '../lib/dom.js';
import { time } from '../lib/format.js';
import { segment, server } from '../lib/server.js';
import { sheets } from './sheet.js';

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

  async #follow() {
    const session = this.getAttribute('session');
    if (!session) return;
    const from = server(this.getAttribute('server') ?? '', this.getAttribute('token') ?? '');
    const path = `/api/sessions/${segment(session)}/inbox`;
    this.#undo.push(from.onEvent((entry) => {
      if (entry.session !== session) return;
      const told = delivered(entry);
      if (told) this.#add(told);
    }));
    try {
      const { messages } = await from.get(path);
      messages.forEach((message) => this.#add(message));
    } catch (error) {
      this.#list.append(h('p', { class: 'problem', role: 'alert' }, error.message));
    }
  }

  #add(message) {
    const known = [...this.#list.children].find((row) => row.dataset.id === message.id);
    const row = h('div', { class: 'message', 'data-id': message.id },
      h('div', {},
        h('p', { class: 'text' }, message.text),
        h('p', { class: 'note' }, message.channel ? `delivered by ${message.channel}, ` : 'waiting in the inbox, ', time(message.at ?? message.created_at, now()))));
    if (known) known.replaceWith(row);
    else this.#list.append(row);
    while (this.#list.children.length > (Number(this.getAttribute('limit')) || 20)) this.#list.firstChild.remove();
  }
}

/// The message that a history entry speaks of, if it does.
export function delivered(entry) {
  const { event, data, at } = entry;
  if (event === 'message.delivered') return { id: entry.id, text: data.text, channel: data.channel, at };
  if (data?.message?.text) return { id: data.message.id, text: data.message.text, at };
  return null;
}
