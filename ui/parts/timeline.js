// The last hour and the next, drawn: what runs as bars that reach to their ends, what has happened as dots.

import { attr, h, svg } from '../lib/dom.js';
import { clockTime, countdown, exact, eventName, instant } from '../lib/format.js';
import { isLive, isPending, opensAt, purpose } from '../lib/timer.js';

const HOUR_MS = 3_600_000;
const TICK_MS = 600_000;
const TICK_NARROW_MS = 1_800_000;
const LANES_MAX = 9;
const LANE = 24;
const TOP = 26;
const EVENTS = 34;

/// Which events are dots, and the state whose colour they have.
export const DOTS = {
  'timer.completed': 'completed',
  'timer.fired': 'completed',
  'timer.missed': 'missed',
  'timer.stopped': 'stopped',
  'reminder.due': 'due',
  'reminder.delivered': 'delivered',
  'reminder.missed': 'missed',
  'message.delivered': 'delivered',
  'session_timer.triggered': 'due',
  'call.failed': 'missed',
  'wake.started': 'running_background',
  'wake.given_up': 'missed',
};

export class Timeline {
  #width = 0;
  #data = { timers: [], reminders: [], sessionTimers: [], events: [] };

  constructor() {
    this.svg = svg('svg', { class: 'timeline', role: 'img', 'aria-label': 'The last hour and the next' });
    this.element = h('div', { class: 'timeline-frame' }, this.svg);
    this.observer = new ResizeObserver(([entry]) => {
      this.#width = entry.contentRect.width;
      this.draw(this.now);
    });
    this.observer.observe(this.element);
  }

  set data(data) {
    this.#data = data;
    if (this.now) this.draw(this.now);
  }

  draw(now) {
    this.now = now;
    const width = this.#width;
    if (!width || !now) return;
    const [begin, end] = [now - HOUR_MS, now + HOUR_MS];
    const x = (at) => ((Math.min(Math.max(at, begin), end) - begin) / (2 * HOUR_MS)) * width;
    const bars = this.#bars(begin, end);
    const shown = bars.slice(0, LANES_MAX);
    const lanes = Math.max(shown.length, 3);
    const height = TOP + lanes * LANE + EVENTS;
    attr(this.svg, 'viewBox', `0 0 ${width} ${height}`);
    attr(this.svg, 'width', width);
    attr(this.svg, 'height', height);
    const dots = this.#data.events.filter((entry) => entry.at >= begin && DOTS[entry.event]);
    attr(this.svg, 'aria-label', `Timeline: ${dots.length} events in the last hour, ${bars.length} things running or due in the next`);
    const floor = TOP + lanes * LANE;
    this.svg.replaceChildren(
      this.#axis(begin, end, x, floor, width),
      ...shown.map((one, lane) => laneOf(one, TOP + lane * LANE + LANE / 2, x, now, width)),
      ...dots.map((entry) => dotOf(entry, x(entry.at), floor + EVENTS / 2 - 2, now)),
      svg('line', { class: 'tl-now', x1: x(now), x2: x(now), y1: TOP - 8, y2: floor + EVENTS - 8 }),
      svg('text', { class: 'tl-now-text', x: x(now), y: TOP - 13, 'text-anchor': 'middle' }, 'now'),
      bars.length > shown.length ? svg('text', { class: 'tl-more', x: width - 14, y: floor + EVENTS / 2 + 2, 'text-anchor': 'end' }, `and ${bars.length - shown.length} more`) : '',
    );
  }

  #bars(begin, end) {
    const timers = this.#data.timers.filter((one) => isLive(one) && opensAt(one) > begin && one.created_at < end)
      .map((one) => ({ from: one.created_at, to: opensAt(one), status: one.status, text: purpose(one), session: one.session }));
    const reminders = this.#data.reminders.filter(isPending)
      .map((one) => ({ from: Date.parse(one.createdAt), to: opensAt(one), status: one.status, text: one.task, session: one.session }))
      .filter((one) => one.to < end);
    const ofAgents = this.#data.sessionTimers.filter((one) => one.next_trigger_at && !one.suspended)
      .map((one) => ({ from: one.next_trigger_at - one.delay_seconds * 1000, to: one.next_trigger_at, status: one.status, text: `${one.timer_id} → ${one.tool_name}`, session: one.session }))
      .filter((one) => one.to < end);
    return [...timers, ...reminders, ...ofAgents].sort((a, b) => a.to - b.to);
  }

  #axis(begin, end, x, floor, width) {
    const step = width < 640 ? TICK_NARROW_MS : TICK_MS;
    const group = svg('g', { class: 'tl-axis' });
    for (let at = Math.ceil(begin / step) * step; at <= end; at += step) {
      group.append(svg('line', { x1: x(at), x2: x(at), y1: TOP - 8, y2: floor + EVENTS - 8 }));
      // Nothing is written over `now` or beyond the edge.
      if (Math.abs(x(at) - width / 2) > 34 && x(at) > 18 && x(at) < width - 18) {
        group.append(svg('text', { x: x(at), y: TOP - 13, 'text-anchor': 'middle' }, clockTime(at)));
      }
    }
    group.append(svg('line', { class: 'tl-floor', x1: 0, x2: width, y1: floor, y2: floor }));
    return group;
  }
}

function laneOf(one, y, x, now, width) {
  const [from, to, present] = [x(one.from), x(one.to), x(Math.min(now, one.to))];
  const title = svg('title', {}, `${one.text}\n${one.session}\n${exact(one.to)}`);
  const beyond = to >= width - 1;
  // Beside the bar, where there is more room.
  const [before, after] = [from - 16, width - to - 24];
  const label = after >= Math.min(before, 150)
    ? svg('text', { class: 'tl-label', x: to + 10, y: y + 4 }, cut(one.text, after / 7))
    : svg('text', { class: 'tl-label', x: from - 8, y: y + 4, 'text-anchor': 'end' }, cut(one.text, before / 7));
  return svg('g', { class: 'tl-lane', 'data-status': one.status }, title,
    svg('rect', { class: 'tl-whole', x: from, y: y - 3, width: Math.max(2, to - from), height: 6, rx: 3 }),
    svg('rect', { class: 'tl-done', x: from, y: y - 3, width: Math.max(0, present - from), height: 6, rx: 3 }),
    beyond ? '' : svg('circle', { class: 'tl-end', cx: to, cy: y, r: 5 }), label);
}

function dotOf(entry, x, y, now) {
  const ago = `${eventName(entry.event)} ${countdown(now - entry.at)} ago\n${entry.session}\n${instant(entry.at, now)}`;
  return svg('circle', { class: 'tl-dot', 'data-status': DOTS[entry.event], cx: x, cy: y, r: 4 }, svg('title', {}, ago));
}

function cut(text, characters) {
  const room = Math.max(0, Math.floor(characters));
  const line = text.replace(/\s+/g, ' ');
  if (line.length <= room) return line;
  return room < 4 ? '' : `${line.slice(0, room - 1)}…`;
}
