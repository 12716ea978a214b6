// A list of any length of which only what is seen exists: rows are made once and used again for others.

import { attr, h } from '../lib/dom.js';

/// Rows beyond each edge, so that scrolling finds them there.
const SPARE = 6;

export class VirtualList {
  #items = [];
  #rows = [];
  #make;
  #show;
  #idOf;
  #height = 56;
  #first = -1;
  #frame = 0;
  /// The row that has the focus, or had it before a dialog took it: it stays with its item wherever that goes.
  #held = null;
  #undo = [];

  /// `make()` → row element; `show(row, item, index)` fills it. `idOf(item)`: the same thing has the same one. `keys(event,
  /// item)`: keys pressed on a row.
  constructor({ label, make, show, idOf, keys, empty }) {
    this.#make = make;
    this.#show = show;
    this.#idOf = idOf;
    this.sizer = h('div', { class: 'vlist-sizer', role: 'presentation' });
    this.empty = h('p', { class: 'empty' }, empty ?? 'Nothing here.');
    this.list = h('div', { class: 'vlist', role: 'list', 'aria-label': label, tabindex: '0' }, this.sizer);
    this.element = h('div', { class: 'vlist-frame' }, this.list, this.empty);
    this.list.addEventListener('scroll', () => this.#later(), { passive: true });
    this.list.addEventListener('keydown', (event) => this.#key(event, keys));
    this.list.addEventListener('focusin', ({ target }) => {
      this.#held = target.closest('.vlist-row');
    });
    this.list.addEventListener('focusout', ({ relatedTarget }) => {
      if (relatedTarget && !relatedTarget.closest('dialog, .vlist-row')) this.#held = null;
    });
    const observer = new ResizeObserver(() => this.#measure());
    observer.observe(this.list);
    this.#undo.push(() => observer.disconnect());
  }

  get items() {
    return this.#items;
  }

  set items(items) {
    this.#items = items;
    this.#lay();
  }

  /// Fills the rows that are seen once more: their items or the time have changed.
  refresh() {
    for (const row of this.#rows) if (!row.hidden) this.#show(row, this.#items[row.index], row.index);
  }

  destroy() {
    cancelAnimationFrame(this.#frame);
    this.#undo.forEach((undo) => undo());
  }

  #measure() {
    const height = parseFloat(getComputedStyle(this.list).getPropertyValue('--row-height'));
    if (height) this.#height = height;
    this.#lay();
  }

  #lay() {
    this.sizer.style.setProperty('height', `${this.#items.length * this.#height}px`);
    this.list.hidden = !this.#items.length;
    this.empty.hidden = Boolean(this.#items.length);
    this.#first = -1;
    this.#draw();
  }

  #later() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #draw() {
    const { scrollTop, clientHeight } = this.list;
    const first = Math.max(0, Math.floor(scrollTop / this.#height) - SPARE);
    if (first === this.#first) return;
    this.#first = first;
    const seen = Math.ceil(clientHeight / this.#height) + 2 * SPARE;
    const last = Math.min(this.#items.length, first + seen);
    const wanted = new Map();
    for (let index = first; index < last; index += 1) wanted.set(this.#idOf(this.#items[index]), index);
    this.#hold(wanted);
    // A row stays with its item for as long as that is seen, so that focus does too; the others are used for what is new.
    const free = this.#rows.filter((row) => !wanted.has(row.key));
    for (const row of this.#rows) {
      if (!wanted.has(row.key)) continue;
      this.#place(row, wanted.get(row.key));
      wanted.delete(row.key);
    }
    for (const index of wanted.values()) this.#place(free.pop() ?? this.#add(), index);
    for (const row of free) {
      row.hidden = true;
      row.key = undefined;
    }
  }

  /// What has the focus is there, also where it is not seen. If its item is gone, what has taken its place gets it.
  #hold(wanted) {
    const held = this.#held;
    if (!held || wanted.has(held.key) || !this.#items.length) return;
    let index = this.#items.findIndex((item) => this.#idOf(item) === held.key);
    if (index < 0) {
      index = Math.min(held.index, this.#items.length - 1);
      const id = this.#idOf(this.#items[index]);
      for (const row of this.#rows) if (row.key === id) row.key = undefined;
      held.key = id;
    }
    wanted.set(held.key, index);
  }

  #place(row, index) {
    row.hidden = false;
    row.index = index;
    row.key = this.#idOf(this.#items[index]);
    row.style.setProperty('transform', `translateY(${index * this.#height}px)`);
    attr(row, 'aria-posinset', index + 1);
    attr(row, 'aria-setsize', this.#items.length);
    this.#show(row, this.#items[index], index);
  }

  #add() {
    const row = this.#make();
    row.classList.add('vlist-row');
    row.setAttribute('role', 'listitem');
    row.setAttribute('tabindex', '-1');
    this.#rows.push(row);
    this.sizer.append(row);
    return row;
  }

  #key(event, keys) {
    const row = event.target.closest('.vlist-row');
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
    if (event.key in steps && !event.target.matches('input, select, textarea')) {
      event.preventDefault();
      const from = row ? row.index : steps[event.key] > 0 ? -1 : 0;
      this.focus(Math.max(0, Math.min(this.#items.length - 1, from + steps[event.key])));
    } else if (row && event.target === row && keys && !event.ctrlKey && !event.metaKey && !event.altKey) {
      keys(event, this.#items[row.index]);
    }
  }

  focus(index) {
    if (!this.#items.length) return;
    const top = index * this.#height;
    const { scrollTop, clientHeight } = this.list;
    if (top < scrollTop) this.list.scrollTop = top;
    else if (top + this.#height > scrollTop + clientHeight) this.list.scrollTop = top + this.#height - clientHeight;
    this.#draw();
    this.#rows.find((row) => !row.hidden && row.index === index)?.focus({ preventScroll: true });
  }
}
