// One Reveille server: requests, and the stream of everything that changes, through restarts.

import { adjust } from './clock.js';

const RECONNECT_FIRST_MS = 300;
const RECONNECT_MAX_MS = 4000;
/// The server is heard every 15 seconds at least; after this much silence the connection is dead.
const SILENCE_MAX_MS = 40_000;

export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail ?? `the server answered ${status}`);
    this.status = status;
    this.code = body?.code ?? 'unknown';
  }
}

class Server extends EventTarget {
  /// `connecting`, `live` or `lost`.
  state = 'connecting';
  #base;
  #token;
  #listeners = new Set();
  #following = false;
  #last = null;
  #pause = RECONNECT_FIRST_MS;
  #abort = null;

  constructor(base, token) {
    super();
    this.#base = base;
    this.#token = token;
  }

  async request(method, path, { params, body, signal } = {}) {
    const query = new URLSearchParams(Object.entries(params ?? {}).filter(([, value]) => value !== undefined && value !== ''));
    const url = `${this.#base}${path}${query.size ? `?${query}` : ''}`;
    const response = await fetch(url, {
      method,
      signal,
      headers: { ...this.#headers(), ...(body ? { 'content-type': 'application/json' } : {}) },
      body: body && JSON.stringify(body),
    });
    const answer = await response.json().catch(() => null);
    if (response.status === 401) this.dispatchEvent(new Event('signed-out'));
    if (!response.ok) throw new Problem(response.status, answer);
    return answer;
  }

  get = (path, params, signal) => this.request('GET', path, { params, signal });
  post = (path, body) => this.request('POST', path, { body: body ?? {} });
  delete = (path) => this.request('DELETE', path);

  /// The statistics, which also tell the time.
  async stats() {
    const sent = Date.now();
    const stats = await this.get('/api/stats');
    adjust(stats.now, sent, Date.now());
    return stats;
  }

  #headers() {
    return this.#token ? { authorization: `Bearer ${this.#token}` } : {};
  }

  /// Called with every change from now on; returns how to stop that.
  onEvent(listener) {
    this.#listeners.add(listener);
    if (!this.#following) this.#follow();
    return () => this.#listeners.delete(listener);
  }

  /// Tries again at once.
  reconnect() {
    this.#pause = RECONNECT_FIRST_MS;
    this.#abort?.abort();
  }

  async #follow() {
    this.#following = true;
    for (;;) {
      this.#abort = new AbortController();
      try {
        await this.#stream(this.#abort);
      } catch (error) {
        if (error instanceof Problem && error.status === 401) this.dispatchEvent(new Event('signed-out'));
      }
      this.#become('lost');
      const { promise, resolve } = Promise.withResolvers();
      this.#abort = { abort: resolve };
      setTimeout(resolve, this.#pause);
      await promise;
      this.#pause = Math.min(this.#pause * 2, RECONNECT_MAX_MS);
    }
  }

  async #stream(abort) {
    const query = this.#last === null ? '' : `?after=${this.#last}`;
    const headers = { ...this.#headers(), accept: 'text/event-stream' };
    let watchdog = setTimeout(() => abort.abort(), SILENCE_MAX_MS);
    try {
      const response = await fetch(`${this.#base}/api/events${query}`, { headers, signal: abort.signal });
      if (!response.ok) throw new Problem(response.status, await response.json().catch(() => null));
      this.#become('live');
      this.#pause = RECONNECT_FIRST_MS;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => abort.abort(), SILENCE_MAX_MS);
        const frames = (text + value).split('\n\n');
        text = frames.pop();
        for (const frame of frames) this.#frame(frame);
      }
    } finally {
      clearTimeout(watchdog);
    }
  }

  #frame(frame) {
    const data = frame.split('\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart());
    if (!data.length) return;
    const entry = JSON.parse(data.join('\n'));
    this.#last = entry.seq;
    for (const listener of [...this.#listeners]) listener(entry);
  }

  #become(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event('state'));
  }
}

const servers = new Map();

/// The server at this address; one connection however many ask.
export function server(base = '', token = '') {
  const key = `${base} ${token}`;
  if (!servers.has(key)) servers.set(key, new Server(base, token));
  return servers.get(key);
}

export const segment = encodeURIComponent;
