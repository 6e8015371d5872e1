// What the page holds: records by kind, each list in the order of time, the oldest let go when there are too many.

/** Records kept of each kind; a quantum takes about 200 bytes. */
const KEEP = 200000;

/** The kinds that the table of events shows, and how. */
const EVENT_TEXT = {
  bookmark: (r) => r.text,
  note: (r) => r.text,
  departure: (r) => `target left: ${r.reason}` +
    (r.enough_heap_bytes ? `; ${bytes(r.enough_heap_bytes)} of heap would have been enough` : ""),
  stop_cancelled: (r) => `stop cancelled after ${micros(r.waited_ns)} µs: ${r.mutator} did not arrive`,
  safepoint_overdue: (r) => `${r.mutator} has come by no safepoint for ${Math.round(r.waited_ns / 1e6)} ms`,
  synchronous: (r) => `synchronous collection of ${((r.ns - r.start_ns) / 1e6).toFixed(2)} ms: ${r.reason}`,
  resized: (r) => `heap ${bytes(r.from_bytes)} → ${bytes(r.to_bytes)}: ${r.reason}`,
  headroom_low: (r) => `headroom low: ${bytes(r.free_bytes)} free`,
  allocation_failed: (r) => `${r.count} allocations failed`,
  clock_step: () => "the clock went back",
  lost: (r) => `${r.count} records lost (${r.place})`,
  end: () => "the heap was closed",
  break_off: () => "the recording breaks off",
};
const BAD = ["departure", "stop_cancelled", "safepoint_overdue", "synchronous", "allocation_failed", "lost", "clock_step",
  "break_off"];

class Store {
  constructor() {
    this.begin = null;
    this.reset();
  }

  reset() {
    this.quanta = [];
    this.sums = [];
    this.cycles = [];
    this.memory = [];
    this.stops = [];
    this.events = [];
    this.intervals = [];
    this.now = 0;
    this.first = null;
    this.ended = false;
    this.brokenOff = false;
    this.longest = 0;
    this.lost = this.lost || 0;
    this.forgotten = 0;
    this.version = (this.version || 0) + 1;
    this.lines = [];
  }

  /** Takes one record; one of an unknown kind is kept for the recording only. */
  take(r) {
    if (r.kind === "begin") {
      this.reset();
      this.begin = r;
    }
    this.lines.push(r);
    if (this.lines.length > KEEP * 2) {
      // The recording keeps its first record.
      this.forgotten += this.lines.splice(1, KEEP).length;
    }
    this.now = Math.max(this.now, r.ns);
    if (this.first === null && r.kind !== "begin") this.first = r.ns;
    switch (r.kind) {
      case "quantum":
        this.push(this.quanta, r);
        this.longest = Math.max(this.longest, r.end_ns - r.start_ns);
        break;
      case "heartbeat": this.push(this.sums, r); break;
      case "interval": this.push(this.intervals, r); break;
      case "cycle_start": this.push(this.cycles, { ns: Infinity, start: r.ns, reason: r.reason }); break;
      case "cycle_end": {
        const last = this.cycles[this.cycles.length - 1];
        if (last && last.ns === Infinity) Object.assign(last, { ns: r.ns, end: r });
        else this.push(this.cycles, { ns: r.ns, start: r.ns - (r.elapsed_ns || 0), end: r });
        break;
      }
      case "memory": this.push(this.memory, r); break;
      case "mutator_stops": this.push(this.stops, r); break;
      default:
    }
    if (r.kind === "stop_cancelled") this.push(this.stops, { ns: r.ns, mutator: r.mutator, stops: 0, sum_ns: 0, max_ns: 0, cancelled: 1 });
    if (r.kind === "lost") this.lost += r.count;
    if (r.kind === "end" || r.kind === "break_off") this.ended = true;
    if (r.kind === "break_off") this.brokenOff = true;
    if (EVENT_TEXT[r.kind]) this.push(this.events, r);
    this.version++;
  }

  push(list, r) {
    list.push(r);
    if (list.length > KEEP) list.splice(0, KEEP / 4);
  }

  /** The earliest time that can be shown. */
  begins() {
    return this.first === null ? 0 : Math.min(this.first, this.quanta.length ? this.quanta[0].start_ns : Infinity);
  }
}

/** Index of the first element whose `ns` is at least `t`. */
function from(list, t) {
  let low = 0, high = list.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (list[mid].ns < t) low = mid + 1; else high = mid;
  }
  return low;
}

/** The elements that end within a span. */
function within(list, t0, t1) {
  return list.slice(from(list, t0), from(list, t1 + 1));
}
