// Entries of the history, the newest first, never more than a page can carry.

export class Log {
  /// The newest first.
  entries = [];
  /// There may be older ones on the server.
  more = true;
  #max;

  constructor(max) {
    this.#max = max;
  }

  get isFull() {
    return this.entries.length >= this.#max;
  }

  clear() {
    this.entries = [];
    this.more = true;
  }

  /// The newest page, of at most `limit`. What has come live and is newer than it stays.
  begin(found, limit) {
    const newest = found[0]?.seq ?? 0;
    this.entries = [...this.entries.filter(({ seq }) => seq > newest), ...found];
    this.more = found.length === limit;
  }

  /// The page before the oldest.
  older(found, limit) {
    this.entries.push(...found);
    this.more = found.length === limit;
  }

  /// One that has just happened; whether it was new. Too many: the oldest goes.
  add(entry) {
    if (this.entries.length && entry.seq <= this.entries[0].seq) return false;
    this.entries.unshift(entry);
    if (this.entries.length > this.#max) {
      this.entries.pop();
      this.more = true;
    }
    return true;
  }
}
