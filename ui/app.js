// The page itself: who may see it, where one is in it, and whether it is connected.

import './embed.js';
import { h, say } from './lib/dom.js';
import { home } from './lib/model.js';
import { icon } from './parts/icons.js';
import { newTimer } from './parts/new-timer.js';
import { signIn } from './parts/sign-in.js';
import { PAGES, resolve } from './routes.js';

/// How often the statistics, and with them the server's time, are asked for while the page is open.
const SET_CLOCK_MS = 60_000;

const main = h('main', { id: 'main', tabindex: '-1' });
const links = PAGES.filter((page) => page.icon).map((page) =>
  h('a', { href: page.href, 'data-page': page.name }, icon(page.icon), h('span', {}, page.title)));
const lost = h('div', { class: 'lost', role: 'alert', hidden: true },
  h('span', {}, 'Not connected. What is shown may be old.'),
  h('button', { class: 'button', type: 'button', onclick: () => home.reconnect() }, 'Try now'));
const dot = h('span', { class: 'live-dot', 'data-state': 'connecting' });
const live = h('p', { class: 'live', role: 'status' }, dot, h('span', { class: 'live-word' }, 'Connecting'));
const brand = h('a', { class: 'brand', href: '#/' }, h('img', { src: '/ui/icon.svg', alt: '', width: 28, height: 28 }), h('span', {}, 'Reveille'));
const nav = h('nav', { class: 'nav', 'aria-label': 'Pages' }, links);
const side = h('header', { class: 'side' }, brand, nav,
  h('button', { class: 'button primary new-timer', type: 'button', 'aria-label': 'New timer', 'aria-keyshortcuts': 'n', onclick: () => newTimer() }, icon('plus'), h('span', {}, 'New timer')), live);

let current = null;

async function show() {
  const { page, params } = resolve(location.hash);
  current?.undo.forEach((undo) => undo());
  current = { undo: [], main: h('div', { class: `page page-${page.name}` }) };
  const shown = current;
  document.title = `${params.title ?? page.title} · Reveille`;
  for (const link of links) {
    if (link.dataset.page === page.menu) {
      link.setAttribute('aria-current', 'page');
      // On a phone the menu is wider than the screen.
      link.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    } else link.removeAttribute('aria-current');
  }
  main.replaceChildren(current.main);
  const { default: build } = await page.load();
  if (current === shown) build(shown, params);
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
  } else if (event.key === 'n') {
    event.preventDefault();
    newTimer();
  }
}

async function begin() {
  await signIn(home);
  document.body.append(side, main, lost);
  home.addEventListener('state', connection);
  home.addEventListener('signed-out', () => location.reload());
  home.onEvent(() => {});
  home.stats().catch(() => {});
  setInterval(() => home.stats().catch(() => {}), SET_CLOCK_MS);
  addEventListener('hashchange', async () => {
    await show();
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  });
  addEventListener('keydown', keys);
  connection();
  await show();
}

begin();
