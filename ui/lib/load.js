// Loads that do not overlap: an older answer that came after a newer one would undo it, and a slow server would be asked
// ever more at once.

/// `work(signal)` as a function to call whenever there is a reason to: one runs at a time, and of all reasons that come
/// meanwhile there is one more. `giveUp()` ends the one that runs, which sees so by its signal; `anew()` begins another at once.
export function oneAtATime(work) {
  let running = null;
  let again = false;

  async function load() {
    if (running) {
      again = true;
      return;
    }
    const mine = new AbortController();
    running = mine;
    try {
      await work(mine.signal);
    } finally {
      if (running === mine) {
        running = null;
        if (again) {
          again = false;
          load();
        }
      }
    }
  }

  load.giveUp = () => {
    running?.abort();
    running = null;
    again = false;
  };
  load.anew = () => {
    load.giveUp();
    return load();
  };
  return load;
}
