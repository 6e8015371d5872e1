// The time that is shown: it follows the newest record, stands still, or runs from where it was set.

class Clock {
  constructor(store) {
    this.store = store;
    this.mode = "live";
    this.at = 0;
    this.speed = 1;
    this.last = null;
  }

  /** The time to show now; `ms` is the browser's clock. */
  now(ms) {
    const passed = this.last === null ? 0 : (ms - this.last) * 1e6 * this.speed;
    this.last = ms;
    if (this.mode === "live") {
      this.at = this.store.now;
    } else if (this.mode === "play") {
      this.at = Math.min(this.store.now, this.at + passed);
      if (this.at >= this.store.now) this.mode = this.store.ended ? "pause" : "live";
    }
    return this.at;
  }

  /** Stands still at `ns`. */
  go(ns) {
    this.mode = "pause";
    this.at = Math.max(this.store.begins(), Math.min(ns, this.store.now));
  }

  toggle() {
    if (this.mode !== "pause") this.mode = "pause";
    else if (this.at >= this.store.now && this.store.ended) {
      // At the end: from the beginning.
      this.at = this.store.begins();
      this.mode = "play";
    } else this.mode = this.at >= this.store.now ? "live" : "play";
  }
}
