// The stream of everything that changes, one for all pages of this origin: browsers allow six connections to a server, and
// six pages with a stream each would leave none for requests. The page that has the lock holds the stream and passes on what
// it hears; as soon as it is closed or not seen any more, the next one takes over where it was. Pages that nobody sees hold
// nothing. Where there are no locks (a page without TLS beyond the loopback), each page that is seen has a stream of its own.

const RECONNECT_FIRST_MS = 300;
const RECONNECT_MAX_MS = 4000;
/// The server is heard every 15 seconds at least; after this much silence the connection is dead.
const SILENCE_MAX_MS = 40_000;
/// After so long without a stream all is read anew: that is less than everything that happened meanwhile.
const AWAY_MAX_MS = 600_000;

/// It tells of `entry`; of `state`: `live` or `lost`; of `anew`: what is known may have holes; and of `signed-out`.
export class Stream {
  #key;
  #open;
  #tell;
  #channel = null;
  #state = 'connecting';
  /// The number of the last entry; `null`: none is known.
  #last = null;
  #heardAt = Date.now();
  #pause = RECONNECT_FIRST_MS;
  /// Ends the present stream, or the pause before the next; only where this page holds it.
  #again = null;

  /// `key`: pages with the same one share a stream. `open(after, signal)` asks the server for it. `tell(what, of)` hears of it.
  constructor({ key, open, tell }) {
    this.#key = key;
    this.#open = open;
    this.#tell = tell;
  }

  /// For as long as the page lives.
  async follow() {
    const name = navigator.locks && (await nameOf(this.#key));
    if (name) {
      this.#channel = new BroadcastChannel(name);
      this.#channel.onmessage = ({ data }) => this.#heard(data);
      this.#pass({ asks: true });
    }
    for (;;) {
      await seen();
      const left = unseen();
      if (!name) await this.#hold(left);
      else await navigator.locks.request(name, { signal: left }, () => this.#hold(left)).catch(aborted);
    }
  }

  /// Tries again at once.
  reconnect() {
    this.#pause = RECONNECT_FIRST_MS;
    if (this.#again) this.#again.abort();
    else this.#pass({ again: true });
  }

  /// Until the page is left.
  async #hold(left) {
    while (!left.aborted) {
      this.#again = new AbortController();
      await this.#stream(AbortSignal.any([left, this.#again.signal])).catch((error) => error.status === 401 && this.#signedOut());
      if (left.aborted) break;
      this.#become('lost');
      this.#again = new AbortController();
      await pause(this.#pause, AbortSignal.any([left, this.#again.signal]));
      this.#pause = Math.min(this.#pause * 2, RECONNECT_MAX_MS);
    }
    this.#again = null;
  }

  async #stream(signal) {
    const silence = new AbortController();
    let watchdog = 0;
    const alive = () => {
      this.#heardAt = Date.now();
      clearTimeout(watchdog);
      watchdog = setTimeout(() => silence.abort(), SILENCE_MAX_MS);
    };
    if (Date.now() - this.#heardAt > AWAY_MAX_MS) this.#last = null;
    const fromNow = this.#last === null && this.#state === 'live';
    alive();
    try {
      const response = await this.#open(this.#last, AbortSignal.any([signal, silence.signal]));
      this.#pause = RECONNECT_FIRST_MS;
      this.#become('live');
      if (fromNow) this.#anew();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        alive();
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
    this.#pass({ entry, after: this.#last });
    this.#last = entry.seq;
    this.#tell('entry', entry);
  }

  #become(state) {
    this.#state = state;
    this.#pass({ state, last: this.#last });
    this.#tell('state', state);
  }

  #anew() {
    this.#pass({ anew: true });
    this.#tell('anew');
  }

  #signedOut() {
    this.#pass({ signedOut: true });
    this.#tell('signed-out');
  }

  #pass(message) {
    this.#channel?.postMessage(message);
  }

  /// What another page says: mostly the one that holds the stream.
  #heard({ entry, after, state, last, anew, signedOut, asks, again }) {
    this.#heardAt = Date.now();
    if (entry) this.#entry(entry, after);
    else if (state) this.#told(state, last);
    else if (anew) this.#tell('anew');
    else if (signedOut) this.#tell('signed-out');
    else if (this.#again && asks) this.#pass({ state: this.#state, last: this.#last });
    else if (this.#again && again) this.reconnect();
  }

  /// A page that takes over may begin a little earlier than this one has heard, or later.
  #entry(entry, after) {
    if (this.#state !== 'live' || (this.#last !== null && entry.seq <= this.#last)) return;
    const hole = after !== null && this.#last !== null && after > this.#last;
    this.#last = entry.seq;
    this.#tell('entry', entry);
    if (hole) this.#tell('anew');
  }

  #told(state, last) {
    if (state === 'connecting') return;
    const hole = state === 'live' && this.#state === 'live' && last > (this.#last ?? 0);
    if (state !== this.#state || hole) this.#last = last;
    this.#state = state;
    this.#tell('state', state);
    if (hole) this.#tell('anew');
  }
}

/// Nobody can read a token out of the name.
async function nameOf(key) {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(key));
  return `reveille ${[...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

function aborted(error) {
  if (error.name !== 'AbortError') throw error;
}

function pause(ms, signal) {
  const { promise, resolve } = Promise.withResolvers();
  signal.addEventListener('abort', resolve);
  setTimeout(resolve, ms);
  return promise;
}

/// A page that is left may be kept by the browser and come back.
let isLeft = false;
const isSeen = () => !isLeft && !document.hidden;
const looks = new EventTarget();
addEventListener('pagehide', () => look(true));
addEventListener('pageshow', () => look(false));
document.addEventListener('visibilitychange', () => look(isLeft));

function look(left) {
  isLeft = left;
  looks.dispatchEvent(new Event('look'));
}

/// Once the page is seen.
async function seen() {
  while (!isSeen()) await new Promise((resolve) => looks.addEventListener('look', resolve, { once: true }));
}

/// Aborted once the page is not seen any more.
function unseen() {
  const left = new AbortController();
  const check = () => isSeen() || left.abort();
  looks.addEventListener('look', check, { signal: left.signal });
  check();
  return left.signal;
}
