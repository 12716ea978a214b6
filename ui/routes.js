// Where everything is. Addresses are behind the hash, so that the server serves one page. All pages come with the first: one
// that had to be fetched while the server is away would stay missing for as long as the tab is open.

import agents from './pages/agents.js';
import deliveries from './pages/deliveries.js';
import history from './pages/history.js';
import overview from './pages/overview.js';
import reminders from './pages/reminders.js';
import session from './pages/session.js';
import sessions from './pages/sessions.js';
import statistics from './pages/statistics.js';
import timers from './pages/timers.js';
import unknown from './pages/unknown.js';

const page = (name, title, build, menu = name) => ({ name, title, build, menu, href: name === 'overview' ? '#/' : `#/${name}` });

/// Those of the menu; each has an icon of its name.
export const PAGES = [
  page('overview', 'Overview', overview),
  page('timers', 'Timers', timers),
  page('sessions', 'Sessions', sessions),
  page('reminders', 'Reminders', reminders),
  page('agents', 'Agents', agents),
  page('deliveries', 'Deliveries', deliveries),
  page('history', 'History', history),
  page('statistics', 'Statistics', statistics),
];

const SESSION = page('session', 'Session', session, 'sessions');
const UNKNOWN = page('unknown', 'Not found', unknown, null);

export function resolve(hash) {
  const [path, query] = hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = path.split('/');
  const params = Object.fromEntries(new URLSearchParams(query ?? ''));
  if (name === 'sessions' && rest[0]) {
    const session = decode(rest.join('/'));
    return { page: SESSION, params: { ...params, session, title: session } };
  }
  const found = PAGES.find((one) => one.name === (name || 'overview'));
  return found && !rest.some(Boolean) ? { page: found, params } : { page: UNKNOWN, params: { address: hash } };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
