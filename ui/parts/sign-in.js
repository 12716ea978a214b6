// Asks for the token, where the server has one, and goes on once it fits. The server keeps it in a cookie that no script
// can read; nothing is kept here.

import { h, say } from '../lib/dom.js';

/// `starting`: where it says that it waits for the server. Whether a token is needed at all, and what this one allows.
export async function signIn(server, starting) {
  const { signed_in: known, required, scope } = await patiently(() => server.get('/api/sign-in'), starting);
  if (known) return { required, scope };
  starting.hidden = true;
  const { promise, resolve } = Promise.withResolvers();
  const input = h('input', { id: 'token', type: 'password', required: true, autocomplete: 'current-password' });
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  const send = async (event) => {
    event.preventDefault();
    try {
      resolve(await server.post('/api/sign-in', { token: input.value }));
    } catch (error) {
      problem.textContent = error.code === 'wrong_token' ? 'That is not the token of this server.' : error.message;
      problem.hidden = false;
      input.select();
    }
  };
  const page = h('main', { class: 'sign-in' }, h('form', { onsubmit: send },
    h('img', { src: '/ui/icon.svg', alt: '', width: 48, height: 48 }),
    h('h1', {}, 'Reveille'),
    // For those who keep passwords: they want a name beside each.
    h('input', { type: 'text', autocomplete: 'username', value: 'reveille', hidden: true }),
    h('label', { for: 'token' }, 'Token of this server'), input, problem,
    h('button', { class: 'button primary', type: 'submit' }, 'Sign in'),
    h('p', { class: 'hint' }, 'The one in REVEILLE_TOKEN or the configured token file.')));
  document.body.append(page);
  input.focus();
  const signedIn = await promise;
  page.remove();
  return { required: true, scope: signedIn.scope };
}

/// Gives the cookie back and asks anew.
export async function signOut(server) {
  await server.delete('/api/sign-in');
  location.reload();
}

/// A server that is just starting answers in a moment.
async function patiently(ask, starting) {
  for (;;) {
    try {
      return await ask();
    } catch {
      say(starting, 'The server does not answer. Trying again …');
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}
