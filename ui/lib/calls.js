// Calls of tools and webhooks, as people see them: one that failed and is tried again is no quiet wait.

import { has } from './features.js';
import { home } from './model.js';

/// Most that are read of one kind.
const READ_MAX = 1000;

export const isRetrying = (call) => call.status === 'waiting' && (call.attempts > 0 || Boolean(call.last_error));
export const isFailing = (call) => call.status === 'failed' || isRetrying(call);
export const callState = (call) => (isRetrying(call) ? 'retrying' : call.status);

/// Why it failed last; nothing where it did not.
export const callError = (call) => call.last_error ?? (call.last_status && `answered ${call.last_status}`);

/// Those that failed, tried again or given up, the newest first; none where the server runs no agents of its own.
export async function failing(signal) {
  if (!(await has('/api/calls'))) return [];
  const { calls } = await home.get('/api/calls', { status: 'waiting,failed', limit: READ_MAX }, signal);
  return calls.filter(isFailing);
}
