// All timers: what they are for, how far they are, and the buttons to do something about it.

import { onTick, now } from '../lib/clock.js';
import { h } from '../lib/dom.js';
import { plural } from '../lib/format.js';
import { listen, timers } from '../lib/model.js';
import { mayOperate } from '../lib/rights.js';
import { isLive, next, purpose } from '../lib/timer.js';
import { filterBar } from '../parts/filter.js';
import { failed, loading } from '../parts/states.js';
import { makeTimerRow, showTimerRow, timerKey, tickTimerRow } from '../parts/timer-row.js';
import { VirtualList } from '../parts/virtual-list.js';

const CHOICES = [
  ['live', 'Live'],
  ['running', 'Running'],
  ['running_background', 'Background'],
  ['paused', 'Paused'],
  ['ended', 'Ended'],
  ['all', 'All'],
];

const fits = {
  live: isLive,
  ended: (timer) => !isLive(timer),
  all: () => true,
};

export default function build(page) {
  const collection = timers();
  const list = new VirtualList({
    label: 'Timers',
    make: makeTimerRow,
    show: (row, timer) => showTimerRow(row, timer, now()),
    idOf: (timer) => timer.timer_id,
    keys: timerKey,
    empty: 'No timers here. Agents set them with the timer tool; you can with “New timer”.',
  });
  const filter = filterBar({ label: 'Search timers', choices: CHOICES, change: update });
  const place = h('div', { class: 'fill' }, loading());
  page.main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Timers')), filter.element, place,
    h('p', { class: 'keys' }, mayOperate() ? 'Keys: ↑ ↓ move, p pause, r resume, c to background, s stop, / search, n new' : 'Keys: ↑ ↓ move, / search'));

  function update() {
    const { text, choice } = filter.state;
    const test = fits[choice] ?? ((timer) => timer.status === choice);
    const shown = [];
    for (const timer of collection.items.values()) {
      if (!test(timer)) continue;
      if (text && !`${purpose(timer)}\n${timer.session}\n${timer.timer_id}`.toLowerCase().includes(text)) continue;
      shown.push(timer);
    }
    shown.sort((a, b) => (isLive(a) || isLive(b) ? next(a) - next(b) : b.ends_at - a.ends_at) || b.created_at - a.created_at);
    list.items = shown;
    filter.count(`${plural(shown.length, 'timer')}${collection.truncated ? ' of the newest loaded' : ''}`);
  }

  function changed() {
    if (collection.state === 'ready') {
      if (!list.element.isConnected) place.replaceChildren(list.element);
      update();
    } else if (collection.state instanceof Error) place.replaceChildren(failed(collection.state));
  }

  listen(page, collection, 'change', changed);
  changed();
  page.undo.push(() => list.destroy(), onTick((time) => {
    for (const row of list.sizer.children) if (!row.hidden && row.timer) tickTimerRow(row, time);
  }));
}
