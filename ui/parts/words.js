// What can be asked of a timer, in words.

export const WORDS = {
  pause: { label: 'Pause', done: 'paused', intro: 'Time stands still until it resumes, by itself or early.' },
  resume: { label: 'Resume', done: 'resumed', intro: 'It counts on from where it stood.' },
  cancel: { label: 'To background', done: 'runs in the background', intro: 'The waiting call returns; the timer runs on and leaves a message when it ends.' },
  stop: { label: 'Stop', done: 'stopped', intro: 'It ends for good, and no message tells of it.' },
};
