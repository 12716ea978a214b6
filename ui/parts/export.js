// Entries as a file, made in the browser.

import { h } from '../lib/dom.js';
import { exact } from '../lib/format.js';

export function csv(entries) {
  const rows = entries.map((one) => [one.seq, exact(one.at), one.session, one.kind, one.id, one.event, one.data ? JSON.stringify(one.data) : '']);
  return [['seq', 'at', 'session', 'kind', 'id', 'event', 'data'], ...rows].map((row) => row.map(cell).join(',')).join('\r\n');
}

/// Quoted where it must be. What a spreadsheet would take for a formula is made a text by the quote before it.
function cell(value) {
  const text = /^[=+\-@\t\r]/.test(String(value)) && typeof value !== 'number' ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
