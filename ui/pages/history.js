// Every change there was: filtered, live, and to take away as a file.

import { now } from '../lib/clock.js';
import { attr, debounced, h, say, uniqueId } from '../lib/dom.js';
import { count, eventName, exact, instant, plural } from '../lib/format.js';
import { Log } from '../lib/log.js';
import { home, loads } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { complain } from '../parts/announce.js';
import { entryText } from '../parts/entry.js';
import { csv, download } from '../parts/export.js';
import { filterBar } from '../parts/filter.js';
import { icon } from '../parts/icons.js';
import { failed, loading } from '../parts/states.js';
import { VirtualList } from '../parts/virtual-list.js';

const PAGE = 500;
/// More than this is not kept while the page is open: the oldest go, and scrolling down reads them again.
const ENTRIES_MAX = 10_000;
/// Fewer rows than this do not fill a screen: more are read.
const SCREEN = 40;
/// So far from the end of the list, the next page is asked for.
const AHEAD_PX = 1500;
const EXPORT_PAGE = 1000;
const EXPORT_MAX = 100_000;
const CHOICES = [['all', 'All'], ['timer', 'Timers'], ['reminder', 'Reminders'], ['session_timer', 'Session timers'], ['call', 'Calls'], ['message', 'Messages'], ['session', 'Sessions']];

export default function build(page, params) {
  const log = new Log(ENTRIES_MAX);
  let reading = false;
  let query = { session: params.session, id: params.id };
  const list = new VirtualList({ label: 'History', make, show, idOf: (entry) => entry.seq, empty: 'Nothing has happened yet.' });
  const session = textField('Session', query.session);
  const id = textField('Timer, reminder or message', query.id);
  const buttons = h('div', { class: 'page-buttons' }, ['CSV', 'JSON'].map((kind) =>
    h('button', { class: 'button', type: 'button', onclick: () => save(kind) }, icon('download'), h('span', {}, kind))));
  const filter = filterBar({ label: 'Search what is loaded', choices: CHOICES, change: update });
  const place = h('div', { class: 'fill' }, loading());
  page.main.append(h('div', { class: 'page-head' }, h('h1', {}, 'History'), buttons), h('div', { class: 'filter narrow' }, session.element, id.element), filter.element, place);

  async function load(fresh) {
    if (!fresh && (reading || !log.more || log.isFull)) return;
    const asked = query;
    reading = true;
    try {
      const before = fresh ? undefined : log.entries.at(-1)?.seq;
      const { entries } = await home.get('/api/history', { ...asked, before, limit: PAGE });
      // Somebody asks for something else by now.
      if (asked !== query) return;
      if (fresh) log.begin(entries, PAGE);
      else log.older(entries, PAGE);
      if (!list.element.isConnected) place.replaceChildren(list.element);
      reading = false;
      update();
    } catch (error) {
      if (asked === query) place.replaceChildren(failed(error));
    } finally {
      if (asked === query) reading = false;
    }
  }

  function update() {
    const { text, choice } = filter.state;
    list.items = log.entries.filter((entry) => (choice === 'all' || entry.kind === choice)
      && (!text || `${entry.event}\n${entry.session}\n${entry.id}\n${JSON.stringify(entry.data ?? '')}`.toLowerCase().includes(text)));
    const rest = !log.more ? '' : log.isFull ? ` of the latest ${count(log.entries.length)}` : ', older ones follow';
    filter.count(`${plural(list.items.length, 'entry', 'entries')}${rest}`);
    if (list.items.length < SCREEN) load(false);
  }

  const asked = debounced(() => {
    query = { session: session.input.value.trim() || undefined, id: id.input.value.trim() || undefined };
    log.clear();
    load(true);
  }, 250);
  session.input.addEventListener('input', asked);
  id.input.addEventListener('input', asked);
  list.list.addEventListener('scroll', () => {
    const { scrollTop, scrollHeight, clientHeight } = list.list;
    if (scrollHeight - scrollTop - clientHeight < AHEAD_PX) load(false);
  }, { passive: true });

  const shown = debounced(update, 100, 400);
  page.undo.push(() => list.destroy(), home.onEvent((entry) => {
    if ((query.session && entry.session !== query.session) || (query.id && entry.id !== query.id)) return;
    if (log.add(entry)) shown();
  }));

  async function save(kind) {
    try {
      const { text, choice } = filter.state;
      const found = [];
      let before;
      do {
        const { entries: one } = await home.get('/api/history', { ...query, before, limit: EXPORT_PAGE });
        found.push(...one.filter((entry) => (choice === 'all' || entry.kind === choice) && (!text || JSON.stringify(entry).toLowerCase().includes(text))));
        before = one.length === EXPORT_PAGE ? one.at(-1).seq : undefined;
      } while (before && found.length < EXPORT_MAX);
      if (kind === 'CSV') download('reveille-history.csv', 'text/csv', csv(found));
      else download('reveille-history.json', 'application/json', JSON.stringify(found, null, 2));
    } catch (error) {
      complain(error);
    }
  }
  loads(page, () => load(true));
}

function textField(label, value) {
  const id = uniqueId('filter');
  const input = h('input', { id, type: 'text', placeholder: label, autocomplete: 'off' });
  input.value = value ?? '';
  return { input, element: h('span', {}, h('label', { for: id, class: 'visually-hidden' }, label), input) };
}

function make() {
  const parts = {
    time: h('time', { class: 'event-time' }),
    name: h('span', { class: 'event-name' }),
    session: h('a', { class: 'event-session' }),
    text: h('span', { class: 'event-text' }),
    id: h('code', { class: 'event-id' }),
  };
  const row = h('div', { class: 'event-row' }, parts.time, parts.name, parts.text, parts.session, parts.id);
  row.parts = parts;
  return row;
}

function show(row, entry) {
  const { parts } = row;
  attr(row, 'data-kind', entry.kind);
  attr(row, 'data-event', entry.event);
  say(parts.time, instant(entry.at, now()));
  attr(parts.time, 'datetime', exact(entry.at));
  parts.time.title = exact(entry.at);
  say(parts.name, eventName(entry.event));
  say(parts.session, entry.session);
  attr(parts.session, 'href', `#/sessions/${segment(entry.session)}`);
  const text = entryText(entry);
  say(parts.text, text);
  parts.text.title = text;
  say(parts.id, entry.kind === 'session' ? '' : entry.id);
}
