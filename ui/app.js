// The page itself: who may see it, where one is in it, and whether it is connected.

import './embed.js';
import { guarded, h, say } from './lib/dom.js';
import { home } from './lib/model.js';
import { mayOperate, scopeWords, setScope } from './lib/rights.js';
import { complain } from './parts/announce.js';
import { icon } from './parts/icons.js';
import { newTimer } from './parts/new.js';
import { signIn, signOut } from './parts/sign-in.js';
import { failed } from './parts/states.js';
import { PAGES, resolve } from './routes.js';

const main = h('main', { id: 'main', tabindex: '-1' });
const links = PAGES.map((page) => h('a', { href: page.href, 'data-page': page.name }, icon(page.name), h('span', {}, page.title)));
const lost = h('div', { class: 'lost', role: 'alert', hidden: true },
  h('span', {}, 'Not connected. What is shown may be old.'),
  h('button', { class: 'button', type: 'button', onclick: () => home.reconnect() }, 'Try now'));
const dot = h('span', { class: 'live-dot', 'data-state': 'connecting' });
const live = h('p', { class: 'live', role: 'status' }, dot, h('span', { class: 'live-word' }, 'Connecting'));
const brand = h('a', { class: 'brand', href: '#/' }, h('img', { src: '/ui/icon.svg', alt: '', width: 28, height: 28 }), h('span', {}, 'Reveille'));
const nav = h('nav', { class: 'nav', 'aria-label': 'Pages' }, links);
const leave = h('button', { class: 'icon-button leave', type: 'button', title: 'Sign out', 'aria-label': 'Sign out', hidden: true, onclick: () => signOut(home).catch(complain) }, icon('leave'));
const create = h('button', { class: 'button primary new-timer', type: 'button', 'aria-label': 'New timer', 'aria-keyshortcuts': 'n', onclick: () => newTimer() }, icon('plus'), h('span', {}, 'New timer'));
const rights = h('p', { class: 'rights', hidden: true });
const side = h('header', { class: 'side' }, brand, nav, create, rights, live, leave);

let current = null;

function show() {
  const { page, params } = resolve(location.hash);
  current?.undo.forEach(guarded);
  current = { undo: [], main: h('div', { class: `page page-${page.name}` }) };
  document.title = `${params.title ?? page.title} · Reveille`;
  for (const link of links) {
    if (link.dataset.page === page.menu) {
      link.setAttribute('aria-current', 'page');
      // On a phone the menu is wider than the screen. Not `scrollIntoView`: the tab key would go on from there.
      nav.scrollLeft = link.offsetLeft - (nav.clientWidth - link.offsetWidth) / 2;
    } else link.removeAttribute('aria-current');
  }
  main.replaceChildren(current.main);
  try {
    page.build(current, params);
  } catch (error) {
    reportError(error);
    current.main.replaceChildren(failed(error));
  }
}

function connection() {
  const words = { connecting: 'Connecting', live: 'Live', lost: 'Not connected' };
  dot.dataset.state = home.state;
  say(live.lastChild, words[home.state]);
  lost.hidden = home.state !== 'lost';
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest('input, select, textarea, dialog')) return;
  if (event.key === '/') {
    const search = main.querySelector('input[type=search]');
    if (search) event.preventDefault();
    search?.focus();
  } else if (event.key === 'n' && mayOperate()) {
    event.preventDefault();
    newTimer();
  }
}

async function begin() {
  const starting = document.getElementById('starting');
  const { required, scope } = await signIn(home, starting);
  setScope(scope);
  leave.hidden = !required;
  create.hidden = !mayOperate();
  say(rights, scopeWords());
  rights.hidden = mayOperate();
  // Before anything is drawn by it.
  await home.setClock().catch(() => {});
  starting.remove();
  document.body.append(side, main, lost);
  // Before, there is nothing to skip.
  const skip = document.querySelector('.skip');
  skip.hidden = false;
  // The address is the page's own: a link to #main would lead to another page.
  skip.addEventListener('click', (event) => {
    event.preventDefault();
    main.focus();
  });
  home.addEventListener('state', connection);
  home.addEventListener('signed-out', () => location.reload());
  home.onEvent(() => {});
  addEventListener('hashchange', () => {
    show();
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  });
  addEventListener('keydown', keys);
  connection();
  show();
}

begin();
