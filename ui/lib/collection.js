// The items of one kind, kept as the server has them: loaded once, then what an event names is read again.

import { debounced } from './dom.js';

/// More than this is not held in a page: beyond it, what ended first goes first.
export const ITEMS_MAX = 20_000;
const PAGE = 1000;
const IDS_MAX = 100;
/// So many changes at once are cheaper to read as a whole.
const DIRTY_MAX = 400;
const DIRTY_SESSIONS_MAX = 40;
const GATHER_MS = 60;
/// What could not be read is asked for again after this.
const RETRY_MS = 1000;

export class Collection extends EventTarget {
  items = new Map();
  /// `loading`, `ready` or the error.
  state = 'loading';
  truncated = false;
  #server;
  #of;
  #dirty = new Set();
  #dirtySessions = new Set();
  /// The latest load: an earlier one that comes to its end later has nothing to say.
  #load = 0;
  #loading = false;
  #flush = debounced(() => this.#read(), GATHER_MS, GATHER_MS * 4);

  /// `kind`: of the events that concern it. `field`: of the answer. `idOf`: how its items are named. `isLive`: whether one
  /// still waits for something. `ofSession`: events that change all of a session's. `exists`: whether this server has them.
  constructor(server, of) {
    super();
    this.#server = server;
    this.#of = of;
    server.onEvent((entry) => {
      if (entry.kind === of.kind) this.#dirty.add(entry.id);
      else if (of.ofSession?.includes(entry.event)) this.#dirtySessions.add(entry.session);
      else return;
      this.#flush();
    });
    server.addEventListener('back', () => this.load());
    // What happened between the beginning of the page and that of the stream is in no event.
    const begun = () => {
      if (server.state !== 'live') return;
      server.removeEventListener('state', begun);
      this.load();
    };
    server.addEventListener('state', begun);
  }

  /// The soonest first, for a quick look at what matters; then all live ones and the latest of the others.
  async load() {
    const load = ++this.#load;
    this.#loading = true;
    try {
      const items = (await this.#of.exists()) ? await this.#all(load) : new Map();
      if (load !== this.#load) return;
      this.#show(items);
    } catch (error) {
      if (load !== this.#load) return;
      this.state = error;
      this.dispatchEvent(new Event('change'));
    }
    this.#loading = false;
    // What changed meanwhile may have been read before it changed.
    if (this.#dirty.size || this.#dirtySessions.size) this.#flush();
  }

  async #all(load) {
    const items = new Map();
    this.#put(items, (await this.#page({ order: 'soonest', limit: PAGE }))[this.#of.field]);
    if (this.state === 'loading' && load === this.#load) this.#show(new Map(items));
    let after;
    for (let loaded = 0; loaded < ITEMS_MAX && load === this.#load; loaded += PAGE) {
      const page = await this.#page({ order: 'newest', limit: PAGE, after });
      this.#put(items, page[this.#of.field]);
      after = page.next;
      if (!after) break;
      if (loaded === 0 && load === this.#load && this.items.size < items.size) this.#show(new Map(items));
    }
    if (load === this.#load) this.truncated = Boolean(after);
    return items;
  }

  #page = (params) => this.#server.get(this.#of.path, params);

  #put(items, list) {
    for (const item of list) items.set(this.#of.idOf(item), item);
  }

  #show(items) {
    this.items = items;
    this.state = 'ready';
    this.dispatchEvent(new Event('change'));
  }

  async #read() {
    // A load under way would overwrite it with what it has read earlier; it asks again when it is done.
    if (this.#loading) return;
    if (this.#dirty.size > DIRTY_MAX || this.#dirtySessions.size > DIRTY_SESSIONS_MAX) {
      this.#asked();
      this.load();
      return;
    }
    const [load, asked] = [this.#load, this.#asked()];
    let answered = 0;
    try {
      for (; answered < asked.length && load === this.#load; answered += 1) {
        this.#put(this.items, (await this.#page(asked[answered]))[this.#of.field]);
      }
    } catch {
      // Not answered; what is left is asked for again.
    }
    if (load !== this.#load) answered = 0;
    if (answered < asked.length) this.#again(asked.slice(answered));
    this.#bound();
    this.dispatchEvent(new Event('change'));
  }

  /// What has changed, as requests.
  #asked() {
    const ids = [...this.#dirty];
    const asked = [...this.#dirtySessions].map((session) => ({ session, limit: PAGE }));
    for (let at = 0; at < ids.length; at += IDS_MAX) asked.push({ id: ids.slice(at, at + IDS_MAX).join(',') });
    this.#dirty.clear();
    this.#dirtySessions.clear();
    return asked;
  }

  /// Once more, a little later.
  #again(asked) {
    for (const { id, session } of asked) {
      if (session) this.#dirtySessions.add(session);
      else id.split(',').forEach((one) => this.#dirty.add(one));
    }
    setTimeout(this.#flush, RETRY_MS);
  }

  #bound() {
    let over = this.items.size - ITEMS_MAX;
    if (over <= 0) return;
    this.truncated = true;
    for (const [id, item] of this.items) {
      if (over <= 0) break;
      if (this.#of.isLive(item)) continue;
      this.items.delete(id);
      over -= 1;
    }
  }
}
