// One Reveille server: requests, and the stream of everything that changes, through restarts.

import { adjust } from './clock.js';
import { guarded } from './dom.js';
import { Stream } from './stream.js';

export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail ?? `the server answered ${status}`);
    this.status = status;
    this.code = body?.code ?? 'unknown';
  }
}

/// How often the server's time is asked for while the page is seen.
const SET_CLOCK_MS = 60_000;

/// What a browser says of a server that is not there differs, and helps nobody.
function unreachable(error) {
  if (error instanceof TypeError) throw new Error('The server does not answer.');
  throw error;
}

/// Events: `state`; `back`, when a lost connection is there again, or anything else may have happened unheard; `signed-out`.
class Server extends EventTarget {
  /// `connecting`, `live` or `lost`.
  state = 'connecting';
  #base;
  #token;
  #listeners = new Set();
  #stream = null;

  constructor(base, token) {
    super();
    this.#base = base;
    this.#token = token;
  }

  async request(method, path, { params, body, signal } = {}) {
    const query = new URLSearchParams(Object.entries(params ?? {}).filter(([, value]) => value !== undefined && value !== ''));
    const url = `${this.#base}${path}${query.size ? `?${query}` : ''}`;
    const headers = { ...this.#headers(), ...(body ? { 'content-type': 'application/json' } : {}) };
    const response = await fetch(url, { method, signal, headers, body: body && JSON.stringify(body) }).catch(unreachable);
    const answer = await response.json().catch(() => null);
    if (response.status === 401) this.dispatchEvent(new Event('signed-out'));
    if (!response.ok) throw new Problem(response.status, answer);
    return answer;
  }

  get = (path, params, signal) => this.request('GET', path, { params, signal });
  post = (path, body) => this.request('POST', path, { body: body ?? {} });
  put = (path, body) => this.request('PUT', path, { body });
  delete = (path) => this.request('DELETE', path);

  stats = (signal) => this.get('/api/stats', {}, signal);

  /// Sets the clock by the server's.
  async setClock() {
    const sent = Date.now();
    const { now_ms: theirs } = await this.get('/api/clock');
    adjust(theirs, sent, Date.now());
  }

  #headers() {
    return this.#token ? { authorization: `Bearer ${this.#token}` } : {};
  }

  /// Called with every change from now on; returns how to stop that.
  onEvent(listener) {
    this.#listeners.add(listener);
    if (!this.#stream) this.#follow();
    return () => this.#listeners.delete(listener);
  }

  /// Tries again at once.
  reconnect() {
    this.#stream?.reconnect();
  }

  #follow() {
    this.#stream = new Stream({
      key: `${this.#base} ${this.#token}`,
      open: (after, signal) => this.#events(after, signal),
      tell: (what, of) => this.#told(what, of),
    });
    this.#stream.follow();
    const set = () => this.setClock().catch(() => {});
    set();
    setInterval(() => document.hidden || set(), SET_CLOCK_MS);
  }

  async #events(after, signal) {
    const headers = { ...this.#headers(), accept: 'text/event-stream' };
    const response = await fetch(`${this.#base}/api/events${after === null ? '' : `?after=${after}`}`, { headers, signal });
    if (!response.ok) throw new Problem(response.status, await response.json().catch(() => null));
    return response;
  }

  #told(what, of) {
    // One listener that fails is a mistake to be seen, and none of the others' business.
    if (what === 'entry') for (const listener of [...this.#listeners]) guarded(() => listener(of));
    else if (what === 'state') this.#become(of);
    else this.dispatchEvent(new Event(what === 'anew' ? 'back' : what));
  }

  #become(state) {
    if (this.state === state) return;
    const back = state === 'live' && this.state === 'lost';
    this.state = state;
    this.dispatchEvent(new Event('state'));
    if (back) this.dispatchEvent(new Event('back'));
  }
}

const servers = new Map();
/// Where this file is from: also in the page of another app, whose own address is none of ours.
const OWN = new URL(import.meta.url).origin;

/// The server at this address, the one that this file is from unless given; one connection however many ask.
export function server(address = '', token = '') {
  const base = address.replace(/\/+$/, '') || OWN;
  const key = `${base} ${token}`;
  if (!servers.has(key)) servers.set(key, new Server(base, token));
  return servers.get(key);
}

export const segment = encodeURIComponent;
