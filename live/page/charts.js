// Utilization and memory over time, and the histogram of quanta.

/** A point for each column: the worst window that ends in it. */
function utilizationCurve(store, t0, step, columns, window, charged) {
  const list = pauses(store, t0 - window, t0 + step * columns, charged);
  const points = [];
  let low = 0;
  for (let i = 0; i <= columns; i++) {
    const t = t0 + i * step;
    if (t < store.begins() || t > store.now) continue;
    while (low < list.length && list[low][1] < t - step - window) low++;
    // Windows that end at the column's edge, and at each end of a pause inside: the worst is one of them.
    const ends = [t];
    for (let j = low; j < list.length && list[j][0] < t; j++) {
      if (list[j][1] > t - step && list[j][1] <= t) ends.push(list[j][1]);
    }
    let worst = 1, first = low;
    ends.sort((a, b) => a - b);
    for (const end of ends) {
      while (first < list.length && list[first][1] < end - window) first++;
      let used = 0;
      for (let j = first; j < list.length && list[j][0] < end; j++) {
        const [s, e, share] = list[j];
        used += Math.max(0, Math.min(e, end) - Math.max(s, end - window)) * share;
      }
      worst = Math.min(worst, 1 - used / window);
    }
    points.push([t, Math.max(0, worst)]);
  }
  return points;
}

function drawUtilization(store, t0, t1) {
  const b = store.begin || {};
  const label = (v) => `${Math.round(100 * v)} %`;
  label.step = 0.25;
  const f = frame("utilization", t0, t1, 1.05, label);
  f.clip(() => shadeCycles(f, store, t0, t1));
  f.under();
  const columns = Math.max(50, Math.round((f.w - LEFT - RIGHT) / 2));
  const step = (t1 - t0) / columns;
  const window = Math.max(b.window_ns || 1e7, 1);
  const g = f.g;
  f.clip(() => {
    for (const [charged, name] of [[false, "wall"], [true, "util"]]) {
      g.strokeStyle = colour(name);
      g.lineWidth = 1.5;
      g.beginPath();
      const points = utilizationCurve(store, t0, step, columns, window, charged);
      points.forEach(([t, v], i) => (i ? g.lineTo(f.x(t), f.y(v)) : g.moveTo(f.x(t), f.y(v))));
      g.stroke();
    }
    if (b.target_ppm) {
      g.strokeStyle = colour("target");
      g.setLineDash([6, 4]);
      g.beginPath(); g.moveTo(LEFT, f.y(b.target_ppm / 1e6)); g.lineTo(f.w, f.y(b.target_ppm / 1e6)); g.stroke();
      g.setLineDash([]);
    }
    markBookmarks(f, store, t0, t1);
  });
  const sums = store.sums.length > 0;
  document.getElementById("utilization-note").textContent =
    `of the ${window / 1e6} ms before each moment; blue: charged to the collector, grey: in wall time, with what the system ` +
    "took; dashed: the target; shaded: cycles" +
    (sums ? "; this log holds sums of quanta, which are spread evenly here" : "");
}

function drawHeap(store, t0, t1) {
  const list = store.memory.slice(Math.max(0, from(store.memory, t0) - 1), from(store.memory, t1) + 1);
  // Sums and quanta tell free memory too, as far as the heap's size is known.
  const size = (store.begin && store.begin.heap_bytes) || 0;
  const quanta = store.quanta.slice(Math.max(0, from(store.quanta, t0) - 1), from(store.quanta, t1) + 1);
  const points = list.map((m) => [m.ns, m.used_bytes])
    .concat(size ? quanta.map((q) => [q.ns, size - q.free_bytes]) : [])
    .concat(size ? within(store.sums, t0, t1).filter((h) => h.free_min_bytes !== null).map((h) => [h.ns, size - h.free_min_bytes]) : [])
    .sort((a, b) => a[0] - b[0]);
  const top = Math.max(1, ...list.map((m) => m.heap_bytes), size) * 1.05;
  const label = (v) => bytes(v);
  label.step = 2 ** Math.ceil(Math.log2(top / 5));
  const f = frame("heap", t0, t1, top, label);
  f.clip(() => shadeCycles(f, store, t0, t1));
  f.under();
  f.clip(() => {
    const line = (pts, name, dash) => {
      f.g.strokeStyle = colour(name);
      f.g.lineWidth = 1.5;
      f.g.setLineDash(dash);
      f.g.beginPath();
      pts.forEach(([t, v], i) => (i ? f.g.lineTo(f.x(t), f.y(v)) : f.g.moveTo(f.x(t), f.y(v))));
      f.g.stroke();
      f.g.setLineDash([]);
    };
    line(list.map((m) => [m.ns, m.heap_bytes]), "size", []);
    line(list.filter((m) => m.trigger_bytes !== null).map((m) => [m.ns, Math.min(m.trigger_bytes, top)]), "trigger", [3, 3]);
    line(points, "used", []);
    markBookmarks(f, store, t0, t1);
  });
}

function drawHistogram(store, t0, t1) {
  const { g, w, h } = canvas("histogram");
  const quanta = within(store.quanta, t0, t1);
  const intervals = within(store.intervals, t0, t1).map((i) => ({ phase: i.name, start_ns: i.start_ns, end_ns: i.ns }));
  const all = quanta.concat(intervals);
  // Eight columns for each factor of ten, from 1 µs to 1 s.
  const COLUMNS = 48, LOW = 3;
  const counts = {};
  let most = 1;
  const total = new Array(COLUMNS).fill(0);
  for (const q of all) {
    const phase = PHASES.includes(q.phase) ? q.phase : "other";
    const ns = Math.max(1, q.end_ns - q.start_ns);
    const i = Math.max(0, Math.min(COLUMNS - 1, Math.floor((Math.log10(ns) - LOW) * 8)));
    (counts[phase] ||= new Array(COLUMNS).fill(0))[i]++;
    most = Math.max(most, ++total[i]);
  }
  const x = (i) => LEFT + i / COLUMNS * (w - LEFT - RIGHT);
  const decades = Math.max(1, Math.ceil(Math.log10(most + 1)));
  // One is a visible step above none.
  const y = (n) => h - BOTTOM - (n ? (Math.log10(n) + 0.3) / (decades + 0.3) : 0) * (h - TOP - BOTTOM);
  g.strokeStyle = colour("line");
  g.fillStyle = colour("soft");
  g.textAlign = "right";
  for (let d = 0; d <= decades; d++) {
    const at = Math.round(y(10 ** d)) + 0.5;
    g.beginPath(); g.moveTo(LEFT, at); g.lineTo(w - RIGHT, at); g.stroke();
    g.fillText(String(10 ** d), LEFT - 6, at + 4);
  }
  g.textAlign = "center";
  ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"].forEach((text, i) => g.fillText(text, Math.max(LEFT, Math.min(w - 16, x(i * 8))), h - 6));
  for (let i = 0; i < COLUMNS; i++) {
    // Stacked by share of the column's height, which is logarithmic in the whole.
    let base = h - BOTTOM;
    const height = base - y(total[i]);
    for (const phase of PHASES) {
      const n = counts[phase] ? counts[phase][i] : 0;
      if (!n) continue;
      const part = height * n / total[i];
      g.fillStyle = phaseColour(phase);
      g.fillRect(x(i) + 0.5, base - part, x(i + 1) - x(i) - 1, part);
      base -= part;
    }
  }
  const legend = document.getElementById("legend");
  legend.replaceChildren(...PHASES.filter((p) => counts[p]).map((p) => {
    const item = document.createElement("span");
    const box = document.createElement("i");
    box.style.background = phaseColour(p);
    item.append(box, `${p}: ${counts[p].reduce((a, b) => a + b, 0)}`);
    return item;
  }));
  if (!all.length) {
    g.fillStyle = colour("soft");
    g.textAlign = "center";
    g.fillText(store.sums.length ? "this log holds sums of quanta only" : "no quantum in the span shown", w / 2, h / 2);
  }
}
