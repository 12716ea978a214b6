// Asks for the token, where the server has one, and goes on once it fits. The server keeps it in a cookie that no script
// can read; nothing is kept here.

import { h } from '../lib/dom.js';

export async function signIn(server) {
  const { signed_in: known } = await patiently(() => server.get('/api/sign-in'));
  if (known) return;
  const { promise, resolve } = Promise.withResolvers();
  const input = h('input', { id: 'token', type: 'password', required: true, autocomplete: 'current-password' });
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  const send = async (event) => {
    event.preventDefault();
    try {
      await server.post('/api/sign-in', { token: input.value });
      resolve();
    } catch (error) {
      problem.textContent = error.code === 'wrong_token' ? 'That is not the token of this server.' : error.message;
      problem.hidden = false;
      input.select();
    }
  };
  const page = h('main', { class: 'sign-in' }, h('form', { onsubmit: send },
    h('img', { src: '/ui/icon.svg', alt: '', width: 48, height: 48 }),
    h('h1', {}, 'Reveille'),
    h('label', { for: 'token' }, 'Token of this server'), input, problem,
    h('button', { class: 'button primary', type: 'submit' }, 'Sign in'),
    h('p', { class: 'hint' }, 'The one in REVEILLE_TOKEN or the configured token file.')));
  document.body.append(page);
  input.focus();
  await promise;
  page.remove();
}

/// A server that is just starting answers in a moment.
async function patiently(ask) {
  for (;;) {
    try {
      return await ask();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}
