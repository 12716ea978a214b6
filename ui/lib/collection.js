// The items of one kind, kept as the server has them: loaded once, then what an event names is read again.

import { debounced } from './dom.js';

/// More than this is not held in a page.
export const ITEMS_MAX = 20_000;
const PAGE = 1000;
const IDS_MAX = 100;
/// So many changes at once are cheaper to read as a whole.
const DIRTY_MAX = 400;
const GATHER_MS = 60;

export class Collection extends EventTarget {
  items = new Map();
  /// `loading`, `ready` or the error.
  state = 'loading';
  truncated = false;
  #server;
  #path;
  #field;
  #idOf;
  #exists;
  #dirty = new Set();
  #flush = debounced(() => this.#read(), GATHER_MS, GATHER_MS * 4);

  /// `kind`: of the events that concern it. `field`: of the answer. `idOf`: how its items are named. `exists`: whether this
  /// server has them at all.
  constructor(server, { kind, path, field, idOf, exists }) {
    super();
    this.#server = server;
    this.#path = path;
    this.#field = field;
    this.#idOf = idOf;
    this.#exists = exists;
    server.onEvent((entry) => {
      if (entry.kind !== kind) return;
      this.#dirty.add(entry.id);
      this.#flush();
    });
    server.addEventListener('state', () => {
      if (server.state === 'live') this.load();
    });
  }

  /// The soonest first, for a quick look at what matters; then all live ones and the latest of the others.
  async load() {
    try {
      if (!(await this.#exists())) return this.#show(new Map(), 'ready');
      const soonest = await this.#page({ order: 'soonest', limit: PAGE });
      const items = new Map();
      this.#put(items, soonest[this.#field]);
      if (this.state === 'loading') this.#show(items, 'ready');
      let after;
      for (let loaded = 0; loaded < ITEMS_MAX; loaded += PAGE) {
        const page = await this.#page({ order: 'newest', limit: PAGE, after });
        this.#put(items, page[this.#field]);
        after = page.next;
        if (!after) break;
        if (loaded === 0 && this.items.size < items.size) this.#show(new Map(items), 'ready');
      }
      this.truncated = Boolean(after);
      this.#show(items, 'ready');
    } catch (error) {
      this.state = error;
      this.dispatchEvent(new Event('change'));
    }
  }

  #page = (params) => this.#server.get(this.#path, params);

  #put(items, list) {
    for (const item of list) items.set(this.#idOf(item), item);
  }

  #show(items, state) {
    this.items = items;
    this.state = state;
    this.dispatchEvent(new Event('change'));
  }

  async #read() {
    const ids = [...this.#dirty];
    this.#dirty.clear();
    if (ids.length > DIRTY_MAX) return this.load();
    try {
      for (let at = 0; at < ids.length; at += IDS_MAX) {
        const page = await this.#page({ id: ids.slice(at, at + IDS_MAX).join(',') });
        this.#put(this.items, page[this.#field]);
      }
      this.dispatchEvent(new Event('change'));
    } catch {
      // The stream says when the server is back, and then everything is read again.
    }
  }
}
