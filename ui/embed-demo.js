// Fills the demonstration with the newest timer there is, once for each of the calls a chat may show.

import { h } from './lib/dom.js';
import { server } from './lib/server.js';

const home = server();
const TOOLS = ['timer', 'read_timer', 'pause_timer', 'resume_timer', 'cancel_timer', 'stop_timer'];

async function show() {
  const { timers: [timer] } = await home.get('/api/timers', { limit: 1, status: 'live' });
  document.getElementById('none').hidden = Boolean(timer);
  if (!timer) return;
  const rows = TOOLS.map((tool) => h('reveille-timer', { 'timer-id': timer.timer_id, tool, readonly: tool === 'timer' ? undefined : true }));
  document.getElementById('timers').replaceChildren(...rows);
  document.getElementById('messages').replaceChildren(h('reveille-message', { session: timer.session }));
}

document.getElementById('make').addEventListener('click', async () => {
  await home.post('/api/timers', { session: 'embed-demo', total_duration: 60, mission: 'Look at the deployment' });
  await show();
});

await show();
