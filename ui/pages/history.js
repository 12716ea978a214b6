// Every change there was: filtered, live, and to take away as a file.

import { now } from '../lib/clock.js';
import { attr, debounced, h, say, uniqueId } from '../lib/dom.js';
import { eventName, exact, instant, plural } from '../lib/format.js';
import { home } from '../lib/model.js';
import { segment } from '../lib/server.js';
import { complain } from '../parts/announce.js';
import { entryText } from '../parts/entry.js';
import { csv, download } from '../parts/export.js';
import { filterBar } from '../parts/filter.js';
import { icon } from '../parts/icons.js';
import { failed, loading } from '../parts/states.js';
import { VirtualList } from '../parts/virtual-list.js';

const PAGE = 500;
const EXPORT_PAGE = 1000;
const EXPORT_MAX = 100_000;
const CHOICES = [['all', 'All'], ['timer', 'Timers'], ['reminder', 'Reminders'], ['session_timer', 'Session timers'], ['message', 'Messages'], ['session', 'Sessions']];

export default function build(page, params) {
  let entries = [];
  let more = true;
  let loading_ = false;
  let query = { session: params.session, id: params.id };
  const list = new VirtualList({ label: 'History', make, show, empty: 'Nothing has happened yet.' });
  const session = textField('Session', query.session);
  const id = textField('Timer, reminder or message', query.id);
  const buttons = h('div', { class: 'page-buttons' }, ['CSV', 'JSON'].map((kind) =>
    h('button', { class: 'button', type: 'button', onclick: () => save(kind) }, icon('download'), h('span', {}, kind))));
  const filter = filterBar({ label: 'Search what is loaded', choices: CHOICES, change: update });
  const place = h('div', { class: 'fill' }, loading());
  page.main.append(h('div', { class: 'page-head' }, h('h1', {}, 'History'), buttons), h('div', { class: 'filter narrow' }, session.element, id.element), filter.element, place);

  async function load(fresh) {
    if (loading_ || (!more && !fresh)) return;
    loading_ = true;
    try {
      const before = fresh ? undefined : entries.at(-1)?.seq;
      const { entries: found } = await home.get('/api/history', { ...query, before, limit: PAGE });
      entries = fresh ? found : [...entries, ...found];
      more = found.length === PAGE;
      if (!list.element.isConnected) place.replaceChildren(list.element);
      update();
    } catch (error) {
      place.replaceChildren(failed(error));
    } finally {
      loading_ = false;
    }
  }

  function update() {
    const { text, choice } = filter.state;
    list.items = entries.filter((entry) => (choice === 'all' || entry.kind === choice)
      && (!text || `${entry.event}\n${entry.session}\n${entry.id}\n${JSON.stringify(entry.data ?? '')}`.toLowerCase().includes(text)));
    filter.count(`${plural(list.items.length, 'entry', 'entries')}${more ? ', older ones follow' : ''}`);
    if (more && list.items.length < 40) load(false);
  }

  const asked = debounced(() => {
    query = { session: session.input.value.trim() || undefined, id: id.input.value.trim() || undefined };
    load(true);
  }, 250);
  session.input.addEventListener('input', asked);
  id.input.addEventListener('input', asked);
  list.list.addEventListener('scroll', () => {
    const { scrollTop, scrollHeight, clientHeight } = list.list;
    if (scrollHeight - scrollTop - clientHeight < 1500) load(false);
  }, { passive: true });

  const shown = debounced(update, 100, 400);
  page.undo.push(() => list.destroy(), home.onEvent((entry) => {
    if ((query.session && entry.session !== query.session) || (query.id && entry.id !== query.id)) return;
    // A page that was just read may hold it already.
    if (entries.length && entry.seq <= entries[0].seq) return;
    entries.unshift(entry);
    shown();
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
  load(true);
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
