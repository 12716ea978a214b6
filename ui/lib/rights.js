// What the token of this page allows. The server decides; what it would refuse is only not offered here.

const WORDS = {
  'read-only': 'This token only looks.',
  agent: 'This token is an agent’s: it opens single sessions, no lists.',
};

let scope = 'operator';

export function setScope(given) {
  scope = given;
}

export const mayOperate = () => scope === 'operator';

/// What whoever signed in should know about it; nothing where everything is allowed.
export const scopeWords = () => WORDS[scope] ?? '';
