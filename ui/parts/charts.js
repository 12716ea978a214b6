// Charts in SVG. Each is an image with a sentence that says what it shows, and a table of the same numbers below it.

import { h, svg, uniqueId } from '../lib/dom.js';
import { count } from '../lib/format.js';

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [460, 190, 56, 24, 8];

/// `series`: `{name, colour, values}`, one value for each label; parts of a whole are stacked, `side` by side are others.
/// `unit`: how a value is written. `steps`: where the axis may end, for units that are not counted in tens.
export function bars({ title, labels, series, side = false, unit = count, steps = [] }) {
  const sums = labels.map((_, at) => series.reduce((sum, one) => sum + one.values[at], 0));
  const highest = side ? Math.max(...series.flatMap(({ values }) => values), 0) : Math.max(...sums, 0);
  const top = steps.find((step) => step >= highest) ?? nice(highest);
  const step = (WIDTH - LEFT) / Math.max(labels.length, 1);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const every = Math.ceil(labels.length / 7);
  const drawn = svg('svg', { class: 'chart', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': describe(title, labels, series, sums, unit) },
    [0, 0.5, 1].map((part) => svg('g', { class: 'chart-grid' },
      svg('line', { x1: LEFT, x2: WIDTH, y1: y(top * part), y2: y(top * part) }),
      svg('text', { x: LEFT - 8, y: y(top * part) + 4, 'text-anchor': 'end' }, unit(top * part)))),
    labels.map((label, at) => column({ series, label, at, side, x: LEFT + at * step, step, y, unit })),
    labels.map((label, at) => (at % every ? null : svg('text', { class: 'chart-label', x: LEFT + (at + 0.5) * step, y: HEIGHT - 6, 'text-anchor': 'middle' }, label))));
  return figure(title, drawn, legend(series), table(['', ...series.map(({ name }) => name)],
    labels.map((label, at) => [label, ...series.map(({ values }) => unit(values[at]))])));
}

function column({ series, label, at, side, x, step, y, unit }) {
  const group = svg('g', {}, svg('title', {}, [label, ...series.map(({ name, values }) => `${name}: ${unit(values[at])}`)].join('\n')),
    svg('rect', { class: 'chart-hit', x, y: TOP, width: step, height: HEIGHT - TOP - BOTTOM }));
  const whole = Math.min(step * 0.62, side ? 54 : 34);
  const width = side ? whole / series.length : whole;
  let sum = 0;
  for (const [place, { colour, values }] of series.entries()) {
    if (!values[at]) continue;
    const base = side ? 0 : sum;
    const [from, to] = [y(base), y(base + values[at])];
    const left = x + (step - whole) / 2 + (side ? place * width : 0);
    group.append(svg('rect', { class: `chart-bar colour-${colour}`, x: left, y: to, width: Math.max(1, width - (side ? 1 : 0)), height: Math.max(1, from - to), rx: Math.min(2, width / 2) }));
    sum += values[at];
  }
  return group;
}

/// Shares of a whole, as lines of bars. `rows`: `[label, value]`.
export function shares({ title, rows }) {
  const total = rows.reduce((sum, [, value]) => sum + value, 0);
  const most = Math.max(...rows.map(([, value]) => value), 1);
  const line = 26;
  const drawn = svg('svg', { class: 'chart', viewBox: `0 0 ${WIDTH} ${rows.length * line}`, role: 'img', 'aria-label': `${title}: ${rows.filter(([, value]) => value).map(([label, value]) => `${label}: ${value}`).join(', ') || 'nothing yet'}` },
    rows.map(([label, value], at) => svg('g', {},
      svg('text', { class: 'chart-label', x: 76, y: at * line + 17, 'text-anchor': 'end' }, label),
      svg('rect', { class: 'chart-track', x: 88, y: at * line + 8, width: WIDTH - 150, height: 10, rx: 5 }),
      value ? svg('rect', { class: 'chart-bar colour-one', x: 88, y: at * line + 8, width: Math.max(5, ((WIDTH - 150) * value) / most), height: 10, rx: 5 }) : null,
      svg('text', { class: 'chart-value', x: WIDTH - 4, y: at * line + 17, 'text-anchor': 'end' }, total ? `${((100 * value) / total).toFixed(1)} %` : '–'))));
  return figure(title, drawn, null, table(['', 'count'], rows.map(([label, value]) => [label, count(value)])));
}

function figure(title, drawn, below, numbers) {
  const id = uniqueId('chart');
  return h('figure', { class: 'figure', 'aria-labelledby': id }, h('figcaption', { id }, title), drawn, below,
    h('details', {}, h('summary', {}, 'As a table'), h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `${title}, as a table` }, numbers)));
}

function legend(series) {
  if (series.length < 2) return null;
  return h('ul', { class: 'legend' }, series.map(({ name, colour }) => h('li', {}, h('i', { class: `swatch colour-${colour}` }), name)));
}

function table(head, rows) {
  return h('table', {}, h('thead', {}, h('tr', {}, head.map((text) => (text ? h('th', { scope: 'col' }, text) : h('td', {}))))),
    h('tbody', {}, rows.map(([label, ...cells]) => h('tr', {}, h('th', { scope: 'row' }, label), cells.map((cell) => h('td', {}, cell))))));
}

function describe(title, labels, series, sums, unit) {
  const total = (values) => values.reduce((sum, one) => sum + one, 0);
  if (!total(sums)) return `${title}: nothing yet`;
  const most = sums.indexOf(Math.max(...sums));
  const parts = series.map(({ name, values }) => `${name} ${unit(total(values))}`).join(', ');
  return `${title}: ${parts}; most on ${labels[most]}`;
}

/// The least round number that is not smaller.
function nice(value) {
  if (value <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((part) => part * power).find((one) => one >= value);
}
