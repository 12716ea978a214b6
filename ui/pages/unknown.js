// An address that means nothing here: mistyped, or of another version.

import { h } from '../lib/dom.js';
import { empty } from '../parts/states.js';

export default function build(page, { address }) {
  page.main.append(h('div', { class: 'page-head' }, h('h1', {}, 'Not found')),
    empty('There is no page at this address.', h('code', {}, address)), h('p', {}, h('a', { href: '#/' }, 'To the overview')));
}
