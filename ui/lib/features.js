// What this server can do, by its own description: asked once, since a request for what is missing would be an error in
// the browser's eyes.

import { home } from './model.js';

let paths = null;

export async function has(path) {
  paths ??= home.get('/openapi.json').then((document) => document.paths);
  try {
    return path in (await paths);
  } catch (error) {
    paths = null;
    throw error;
  }
}
