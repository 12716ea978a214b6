// What it was good for: outcomes, saved requests and sleep by day, and how late things were.

import { now } from '../lib/clock.js';
import { debounced, h } from '../lib/dom.js';
import { count, dayOf, length } from '../lib/format.js';
import { home, loads } from '../lib/model.js';
import { bars, shares } from '../parts/charts.js';
import { failed, loading, section } from '../parts/states.js';

const DAY_MS = 86_400_000;
const REFRESH_MS = 2000;
/// Seconds that an axis of lengths of time may end with.
const LENGTHS = [60, 120, 600, 1200, 3600, 7200, 14_400, 36_000, 86_400, 172_800, 432_000, 864_000];
/// From punctual to late, as the server counts them.
const LATE = [
  ['fired_within_10ms', 'within 10 ms', 'one'],
  ['fired_within_100ms', 'within 100 ms', 'two'],
  ['fired_within_1s', 'within 1 s', 'three'],
  ['fired_within_1m', 'within 1 min', 'four'],
  ['fired_later', 'later', 'bad'],
];
const RANGES = [[7, '7 days'], [30, '30 days'], [90, '90 days']];

export default function build(page) {
  let days = RANGES[0][0];
  const body = h('div', { class: 'stack' }, loading());
  const buttons = RANGES.map(([range, label]) =>
    h('button', { class: 'segment', type: 'button', 'aria-pressed': String(range === days), onclick: () => choose(range) }, label));
  page.main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Statistics'),
    h('div', { class: 'segments', role: 'group', 'aria-label': 'Range' }, buttons)), body);

  function choose(range) {
    days = range;
    RANGES.forEach(([one], at) => buttons[at].setAttribute('aria-pressed', String(one === range)));
    load.anew();
  }

  async function read(signal) {
    try {
      const begin = startOfDay(now() - (days - 1) * DAY_MS);
      const [stats, { hours }] = await Promise.all([home.stats(signal), home.get('/api/stats/hours', { since: begin }, signal)]);
      if (signal.aborted) return;
      const open = new Set([...body.querySelectorAll('details[open]')].map(titleOf));
      body.replaceChildren(tiles(stats), ...charts(byDay(hours, days, now())), lateness(stats));
      for (const table of body.querySelectorAll('details')) table.open = open.has(titleOf(table));
    } catch (error) {
      if (!signal.aborted) body.replaceChildren(failed(error));
    }
  }
  const load = loads(page, read);
  page.undo.push(home.onEvent(debounced(load, REFRESH_MS)));
}

/// Which chart's table it is.
const titleOf = (table) => table.closest('figure').querySelector('figcaption').textContent;

const startOfDay = (ms) => new Date(ms).setHours(0, 0, 0, 0);

/// Hours of UTC into days of the viewer. A day has 23 to 25 hours, so days are counted by the calendar.
export function byDay(hours, days, today) {
  const found = Array.from({ length: days }, (_, at) => {
    const date = new Date(today);
    date.setDate(date.getDate() - (days - 1 - at));
    return { start: startOfDay(date), sums: {} };
  });
  const places = new Map(found.map((day, at) => [day.start, at]));
  for (const { hour, ...values } of hours) {
    const place = places.get(startOfDay(hour));
    if (place === undefined) continue;
    const { sums } = found[place];
    for (const [name, value] of Object.entries(values)) sums[name] = (sums[name] ?? 0) + value;
  }
  return found;
}

function charts(days) {
  const labels = days.map(({ start }) => dayOf(start));
  const of = (name) => days.map(({ sums }) => sums[name] ?? 0);
  return [
    h('div', { class: 'charts' },
      bars({ title: 'Timers, by how they ended', labels, series: [
        { name: 'completed', colour: 'one', values: of('timers_completed') },
        { name: 'stopped', colour: 'three', values: of('timers_stopped') }] }),
      bars({ title: 'Recurring timers, time by time', labels, series: [
        { name: 'fired', colour: 'one', values: of('timers_fired') },
        { name: 'missed', colour: 'bad', values: of('timers_missed') }] }),
      bars({ title: 'Conditions that timers waited for', labels, series: [
        { name: 'met', colour: 'one', values: of('conditions_met') },
        { name: 'not met in time', colour: 'three', values: of('conditions_unmet') }] }),
      bars({ title: 'Reminders, by what became of them', labels, series: [
        { name: 'delivered', colour: 'two', values: of('reminders_delivered') },
        { name: 'cancelled', colour: 'three', values: of('reminders_cancelled') },
        { name: 'missed', colour: 'bad', values: of('reminders_missed') }] }),
      bars({ title: 'Session timers and the calls of their agents', labels, side: true, series: [
        { name: 'fired', colour: 'one', values: of('session_timers_fired') },
        { name: 'calls done', colour: 'two', values: of('calls_done') },
        { name: 'calls failed', colour: 'bad', values: of('calls_failed') }] }),
      bars({ title: 'Lateness: how long after their time things came', labels, series: LATE.map(([field, name, colour]) => ({ name, colour, values: of(field) })) }),
      bars({ title: 'Requests saved', labels, series: [{ name: 'requests', colour: 'one', values: of('requests_saved') }] }),
      bars({ title: 'Time slept', labels, unit: (seconds) => length(seconds), steps: LENGTHS, series: [{ name: 'slept', colour: 'two', values: of('slept') }] })),
  ];
}

function lateness({ lateness: late }) {
  const ms = (value) => (value === undefined || value === null ? '–' : `${count(value)} ms`);
  const rows = late.spread.map(({ within_ms: within, count: number }, at, all) =>
    [within === undefined ? `over ${all[at - 1].within_ms / 1000} s` : within < 1000 ? `≤ ${within} ms` : `≤ ${Math.round(within / 1000)} s`, number]);
  return section('Lateness since the server started',
    h('dl', { class: 'tiles' }, [['Fired', count(late.fired)], ['Half within', ms(late.p50_ms)], ['90 % within', ms(late.p90_ms)], ['99 % within', ms(late.p99_ms)], ['All within', ms(late.max_ms)]]
      .map(([name, value]) => h('div', { class: 'tile' }, h('dt', {}, name), h('dd', {}, value)))),
    h('div', { class: 'charts' }, shares({ title: 'From the deadline to its durable firing', rows })));
}

function tiles({ timers, reminders, messages, calls, conditions, sessions, standby }) {
  const rows = [
    ['Timers set', timers.created], ['Completed', timers.completed], ['Stopped', timers.stopped], ['Conditions met', conditions.met], ['Not met', conditions.unmet], ['Reminders set', reminders.created],
    ['Missed', reminders.missed], ['Messages told', messages.delivered], ['Calls failed', calls.failed], ['Sessions', sessions],
  ];
  return h('dl', { class: 'tiles' }, [...rows.map(([name, value]) => [name, count(value)]), ['Requests saved', count(standby.requests_saved)], ['Time slept', length(standby.slept)]]
    .map(([name, value]) => h('div', { class: 'tile' }, h('dt', {}, name), h('dd', {}, value))));
}
