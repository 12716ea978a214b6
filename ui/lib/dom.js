// Elements from data. Text only ever becomes text: nothing here, or anywhere else, parses HTML.

const SVG = 'http://www.w3.org/2000/svg';

export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'vars') Object.entries(value).forEach(([key, one]) => element.style.setProperty(key, one));
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/// Changes a text only where it differs: a live region would read it again, and the browser lay it out again.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function attr(element, name, value) {
  const text = value === undefined || value === null || value === false ? null : String(value === true ? '' : value);
  if (text === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/// Changes a list to these rows, moving only what has moved: focus and selection stay where they are.
export function arrange(list, rows) {
  let next = list.firstChild;
  for (const row of rows) {
    if (row === next) next = next.nextSibling;
    else list.insertBefore(row, next);
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

/// Rows that were made before and still say the same are used again; others are made.
export class Kept {
  #rows = new Map();

  /// `items` as rows: `make(item)`, kept by what the item says.
  rows(items, make) {
    const rows = new Map();
    for (const item of items) {
      let key = JSON.stringify(item);
      // Twice the same: twice a row.
      while (rows.has(key)) key += ' ';
      rows.set(key, this.#rows.get(key) ?? make(item));
    }
    this.#rows = rows;
    return [...rows.values()];
  }
}

/// Does one thing of several: its mistake goes to the console, not to the others.
export function guarded(work) {
  try {
    work();
  } catch (error) {
    reportError(error);
  }
}

let numbered = 0;
export const uniqueId = (prefix) => `${prefix}-${++numbered}`;

/// Calls `work` once, a little after the last of many reasons to, and at the latest after `most`.
export function debounced(work, wait, most = wait * 5) {
  let timer = 0;
  let first = 0;
  return () => {
    const now = performance.now();
    if (!timer) first = now;
    clearTimeout(timer);
    const run = () => {
      timer = 0;
      work();
    };
    timer = setTimeout(run, Math.max(0, Math.min(wait, first + most - now)));
  };
}
