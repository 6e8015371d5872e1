// Figures of a span of time, and how they are written.

function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${n < 10 && i ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

function micros(ns) {
  return ns < 1e5 ? (ns / 1e3).toFixed(1) : String(Math.round(ns / 1e3));
}

function percent(x) {
  return x === null ? "–" : `${(100 * x).toFixed(1)} %`;
}

/**
 * Pauses within a span: quanta and, where a log has only those, sums spread over their time. In wall time until the last
 * mutator ran on, or what is charged to the collector.
 */
function pauses(store, t0, t1, charged) {
  const list = [];
  for (let i = from(store.quanta, t0); i < store.quanta.length; i++) {
    const q = store.quanta[i];
    if (q.start_ns >= t1) break;
    list.push([q.start_ns, charged ? q.start_ns + q.charged_ns : q.end_ns, 1]);
  }
  for (let i = from(store.sums, t0); i < store.sums.length; i++) {
    const h = store.sums[i];
    const span = Math.max(h.span_ns || 0, h.quanta * h.mean_ns, 1);
    if (h.ns - span >= t1) break;
    list.push([h.ns - span, h.ns, Math.min(1, h.quanta * h.mean_ns / span)]);
  }
  return list;
}

/** The mutators' share of a span, by pauses of it. */
function utilization(list, t0, t1) {
  let used = 0;
  for (const [start, end, share] of list) {
    used += Math.max(0, Math.min(end, t1) - Math.max(start, t0)) * share;
  }
  return t1 > t0 ? 1 - used / (t1 - t0) : null;
}

/** The least share of any window within a span. It is reached where a window begins or ends with a pause. */
function leastUtilization(list, t0, t1, window) {
  const inside = list.filter((p) => p[2] === 1 && p[1] > t0 && p[0] < t1);
  if (!inside.length || t1 - t0 < window) return null;
  const before = [0];
  for (const [start, end] of inside) before.push(before[before.length - 1] + (end - start));
  /** Pause time until t. */
  const used = (t) => {
    let low = 0, high = inside.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (inside[mid][0] < t) low = mid + 1; else high = mid;
    }
    return low ? before[low - 1] + Math.min(t, inside[low - 1][1]) - inside[low - 1][0] : 0;
  };
  let most = 0;
  for (const [start, end] of inside) {
    for (const from of [start, end - window]) {
      const at = Math.max(t0, Math.min(from, t1 - window));
      most = Math.max(most, used(at + window) - used(at));
    }
  }
  return 1 - most / window;
}

/** Value at a quantile of sorted numbers. */
function quantile(sorted, q) {
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1 < 0 ? 0 : Math.ceil(q * sorted.length) - 1)] : null;
}

/** The tiles of a span. */
function tiles(store, t0, t1) {
  const b = store.begin || {};
  const list = pauses(store, t0, t1);
  const quanta = within(store.quanta, t0, t1);
  const lengths = quanta.map((q) => q.end_ns - q.start_ns).sort((x, y) => x - y);
  const share = utilization(list, Math.max(t0, store.begins()), t1);
  const target = b.target_ppm ? b.target_ppm / 1e6 : null;
  const window = b.window_ns || 0;
  const least = window ? leastUtilization(list, t0, t1, window) : null;
  const kept = window ? leastUtilization(pauses(store, t0, t1, true), t0, t1, window) : null;
  const every = `least of every ${window ? window / 1e6 : "?"} ms`;
  const memory = store.memory[from(store.memory, t1 + 1) - 1];
  const old = store.memory[Math.min(from(store.memory, t0), store.memory.length - 1)];
  const rate = memory && old && memory.ns > old.ns
    ? (memory.allocated_bytes - old.allocated_bytes) * 1e9 / (memory.ns - old.ns) : null;
  const cycles = store.cycles.filter((c) => c.ns <= t1).length;
  const sums = within(store.sums, t0, t1);
  const count = quanta.length + sums.reduce((n, h) => n + h.quanta, 0);
  return [
    ["utilization in the span", percent(share), target !== null && share !== null && share < target],
    [`${every}, charged`, percent(kept), target !== null && kept !== null && kept < target],
    [`${every}, wall`, percent(least), false],
    ["target", percent(target), false],
    ["quanta in the span", String(count), false],
    ["pause p50 / p99 µs", lengths.length ? `${micros(quantile(lengths, 0.5))} / ${micros(quantile(lengths, 0.99))}` : "–", false],
    ["longest pause µs", lengths.length ? micros(lengths[lengths.length - 1]) : sums.length ? micros(Math.max(...sums.map((h) => h.max_ns))) : "–", false],
    ["cycles so far", String(cycles), false],
    ["heap used", memory ? `${bytes(memory.used_bytes)} of ${bytes(memory.heap_bytes)}` : "–", false],
    ["allocation per second", rate === null ? "–" : bytes(rate), false],
    ["records lost", String(store.lost), store.lost > 0],
  ];
}
