// A session's timeline: what comes above a line that says now, what has been below it. Rows stay while they are there.

import { arrange, attr, h, say } from '../lib/dom.js';
import { clockTime, countdown, exact, instant, timeOf, weekdayOf } from '../lib/format.js';
import { entryText } from './entry.js';

/// Nearest ones; the rest are a sentence.
const COMING_SHOWN = 25;

export class Moments {
  #rows = new Map();
  #coming = h('ol', { class: 'moments', 'aria-label': 'What is to come' });
  #past = h('ol', { class: 'moments', 'aria-label': 'What has been' });
  #later = h('p', { class: 'moments-note' });
  #none = h('p', { class: 'moments-note' }, 'Nothing is to come.');
  #now = h('p', { class: 'moments-now' }, h('span', {}, 'Now'), h('time', {}));

  constructor() {
    this.element = h('div', { class: 'moments-frame' }, this.#later, this.#coming, this.#none, this.#now, this.#past);
  }

  /// `coming`: the soonest first. `past`: the newest first.
  show(coming, past, now) {
    const shown = coming.slice(0, COMING_SHOWN).reverse();
    this.#later.hidden = shown.length === coming.length;
    say(this.#later, `${coming.length - shown.length} more later`);
    this.#none.hidden = coming.length > 0;
    const rows = new Map();
    const row = (moment, make) => {
      // What is to come may change; what has been does not.
      const known = this.#rows.get(moment.key);
      const kept = known && (known.moment.entry || known.moment.kind === 'said' || same(known.moment, moment)) ? known : make(moment);
      kept.moment = moment;
      rows.set(moment.key, kept);
      return kept;
    };
    arrange(this.#coming, shown.map((one) => row(one, (moment) => comingRow(moment, now))));
    arrange(this.#past, withDays(past, now, (one) => row(one, pastRow), (key, text) => this.#rows.get(key) ?? dayRow(text), rows));
    this.#rows = rows;
    this.tick(now);
  }

  tick(now) {
    const time = this.#now.lastChild;
    say(time, clockTime(now));
    attr(time, 'datetime', exact(now - (now % 60_000)));
    for (const row of this.#coming.children) say(row.left, row.moment.at > now ? `in ${countdown(row.moment.at - now)}` : 'now');
  }
}

const same = (one, other) => one.at === other.at && one.text === other.text && one.status === other.status;

function withDays(moments, now, row, dayRowOf, rows) {
  let day = new Date(now).toDateString();
  return moments.flatMap((moment) => {
    const its = new Date(moment.at).toDateString();
    if (its === day) return [row(moment)];
    day = its;
    const head = dayRowOf(`day ${its}`, weekdayOf(moment.at));
    rows.set(`day ${its}`, head);
    return [head, row(moment)];
  });
}

const dayRow = (text) => h('li', { class: 'moment-day' }, text);

function frame(moment, state, when, ...content) {
  return h('li', { class: 'moment', 'data-kind': moment.kind, 'data-state': state, 'data-role': moment.role, 'data-status': moment.status },
    h('time', { datetime: exact(moment.at), title: exact(moment.at) }, when), h('i', { class: 'moment-dot' }), ...content);
}

function comingRow(moment, now) {
  const left = h('span', { class: 'moment-left' });
  const row = frame(moment, 'coming', instant(moment.at, now), h('div', { class: 'moment-what' },
    h('p', { class: 'moment-title' }, moment.title, ' ', left), h('p', { class: 'moment-text' }, moment.text)));
  row.left = left;
  return row;
}

function pastRow(moment) {
  if (moment.kind === 'said') {
    return frame(moment, 'past', timeOf(moment.at), h('div', { class: 'moment-what bubble' }, h('p', { class: 'moment-title' }, moment.title), h('p', { class: 'moment-text' }, moment.text)));
  }
  const text = entryText(moment.entry);
  return frame(moment, 'past', timeOf(moment.at), h('div', { class: 'moment-what' },
    h('p', { class: 'moment-title' }, moment.title, moment.id ? h('code', { class: 'event-id' }, moment.id) : null),
    text ? h('p', { class: 'moment-text' }, text) : null));
}
