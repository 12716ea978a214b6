// Reminders that agents have set with the clock tool, and what became of them.

import { now, onTick } from '../lib/clock.js';
import { attr, h, say } from '../lib/dom.js';
import { countdown, exact, instant, plural } from '../lib/format.js';
import { listen, reminders } from '../lib/model.js';
import { mayOperate } from '../lib/rights.js';
import { segment } from '../lib/server.js';
import { isPending, left, opensAt, waits } from '../lib/timer.js';
import { cancelReminder } from '../parts/act.js';
import { chip, setChip } from '../parts/chip.js';
import { filterBar } from '../parts/filter.js';
import { icon } from '../parts/icons.js';
import { newReminder } from '../parts/new.js';
import { failed, loading } from '../parts/states.js';
import { VirtualList } from '../parts/virtual-list.js';

const CHOICES = [['live', 'Pending'], ['delivered', 'Delivered'], ['missed', 'Missed'], ['cancelled', 'Cancelled'], ['all', 'All']];

export default function build(page) {
  const collection = reminders();
  const list = new VirtualList({ label: 'Reminders', make, show, idOf: (one) => one.taskId, empty: 'No reminders here. Agents set them with the clock tool; you can with “New reminder”.' });
  const filter = filterBar({ label: 'Search reminders', choices: CHOICES, change: update });
  const place = h('div', { class: 'fill' }, loading());
  page.main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Reminders'),
    mayOperate() && h('button', { class: 'button', type: 'button', onclick: () => newReminder() }, icon('plus'), h('span', {}, 'New reminder'))), filter.element, place);

  function update() {
    const { text, choice } = filter.state;
    const shown = [...collection.items.values()].filter((one) =>
      (choice === 'all' || (choice === 'live' ? isPending(one) : one.status === choice))
      && (!text || `${one.task}\n${one.session}\n${one.tool ?? ''}`.toLowerCase().includes(text)));
    const soonest = (a, b) => opensAt(a) - opensAt(b);
    shown.sort(choice === 'live' ? soonest : (a, b) => soonest(b, a));
    list.items = shown;
    filter.count(`${plural(shown.length, 'reminder')}${collection.truncated ? ' of the newest loaded' : ''}`);
  }

  function changed() {
    if (collection.state === 'ready') {
      if (!list.element.isConnected) place.replaceChildren(list.element);
      update();
    } else if (collection.state instanceof Error) place.replaceChildren(failed(collection.state));
  }

  listen(page, collection, 'change', changed);
  changed();
  page.undo.push(() => list.destroy(), onTick(() => list.refresh()));
}

function make() {
  const parts = {
    task: h('span', { class: 'row-purpose' }),
    tool: h('code', { class: 'row-kind' }),
    session: h('a', { class: 'row-session' }),
    chip: chip(''),
    due: h('time', { class: 'row-left' }),
    left: h('span', { class: 'row-total' }),
    waits: h('span', { class: 'row-schedule' }),
    cancel: h('button', { class: 'icon-button', type: 'button', title: 'Cancel', onclick: () => cancelReminder(row.reminder) }, icon('close')),
  };
  const row = h('div', { class: 'timer-row reminder-row' },
    h('div', { class: 'row-what' }, parts.task, h('span', { class: 'row-meta' }, parts.tool, parts.session, parts.waits)),
    h('div', { class: 'row-chip' }, parts.chip), h('div', { class: 'row-time' }, parts.due, parts.left),
    h('span', { class: 'row-buttons' }, parts.cancel));
  row.parts = parts;
  return row;
}

function show(row, reminder) {
  const { parts } = row;
  const [time, due] = [now(), opensAt(reminder)];
  const live = isPending(reminder);
  say(parts.left, live ? (due > time ? `in ${countdown(left(reminder, time))}` : 'due') : reminder.deliveredAt ? 'told' : '');
  if (row.reminder === reminder) return;
  row.reminder = reminder;
  attr(row, 'data-id', reminder.taskId);
  attr(row, 'data-status', reminder.status);
  say(parts.task, reminder.task);
  parts.task.title = `${reminder.taskId}: ${reminder.task}`;
  say(parts.tool, reminder.tool ?? '');
  parts.tool.hidden = !reminder.tool;
  say(parts.waits, waits(reminder));
  say(parts.session, reminder.session);
  attr(parts.session, 'href', `#/sessions/${segment(reminder.session)}`);
  setChip(parts.chip, reminder.status);
  say(parts.due, instant(due, time));
  attr(parts.due, 'datetime', exact(due));
  parts.due.title = exact(due);
  parts.cancel.hidden = !live || !mayOperate();
  attr(parts.cancel, 'aria-label', `Cancel ${reminder.taskId}`);
}
