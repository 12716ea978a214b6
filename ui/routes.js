// Where everything is. Addresses are behind the hash, so that the server serves one page.

const page = (name, title, load, icon, menu = name) => ({ name, title, load, icon, menu, href: name === 'overview' ? '#/' : `#/${name}` });

export const PAGES = [
  page('overview', 'Overview', () => import('./pages/overview.js'), 'overview'),
  page('timers', 'Timers', () => import('./pages/timers.js'), 'timers'),
  page('sessions', 'Sessions', () => import('./pages/sessions.js'), 'sessions'),
  page('reminders', 'Reminders', () => import('./pages/reminders.js'), 'reminders'),
  page('agents', 'Agents', () => import('./pages/agents.js'), 'agents'),
  page('deliveries', 'Deliveries', () => import('./pages/deliveries.js'), 'deliveries'),
  page('history', 'History', () => import('./pages/history.js'), 'history'),
  page('statistics', 'Statistics', () => import('./pages/statistics.js'), 'statistics'),
];

const SESSION = page('session', 'Session', () => import('./pages/session.js'), null, 'sessions');

export function resolve(hash) {
  const [path, query] = hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = path.split('/');
  const params = Object.fromEntries(new URLSearchParams(query ?? ''));
  if (name === 'sessions' && rest[0]) {
    const session = decode(rest.join('/'));
    return { page: SESSION, params: { ...params, session, title: session } };
  }
  return { page: PAGES.find((one) => one.name === name) ?? PAGES[0], params };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
