// The oscilloscope: strips of equal length, one below the other, the newest last. Strips begin on the beat, so that what
// keeps its time stands in columns, and what drifts slants.

const STRIPS = 40;

function drawScope(store, t1) {
  const b = store.begin || {};
  const beat = b.beat_ns || 5e5;
  const chosen = document.getElementById("strip").value;
  const period = chosen === "window" ? (b.window_ns || 1e7) : beat * Number(chosen);
  const { g, w, h } = canvas("scope");
  // The grid is that of the beats since the run began.
  const last = Math.floor(t1 / period);
  const first = last - STRIPS + 1;
  const height = (h - BOTTOM) / STRIPS;
  const x = (t) => LEFT + t / period * (w - LEFT - RIGHT);
  g.fillStyle = colour("soft");
  g.strokeStyle = colour("line");
  const beats = Math.round(period / beat);
  for (let i = 0; i <= beats && beats <= 80; i++) {
    const at = Math.round(x(i * beat)) + 0.5;
    g.beginPath(); g.moveTo(at, 0); g.lineTo(at, h - BOTTOM); g.stroke();
  }
  g.textAlign = "right";
  for (let i = 0; i < STRIPS; i += 8) {
    const t = (first + i) * period;
    if (t >= 0) g.fillText(`${(t / 1e9).toFixed(3)} s`, LEFT - 4, i * height + 10);
  }
  g.textAlign = "center";
  for (let i = 0; i <= 4; i++) g.fillText(`${+(period * i / 4 / 1e6).toFixed(3)} ms`, Math.min(x(period * i / 4), w - 24), h - 6);
  const draw = (start, end, fill) => {
    g.fillStyle = fill;
    for (let s = Math.max(first, Math.floor(start / period)); s <= Math.min(last, Math.floor(end / period)); s++) {
      const from = Math.max(0, start - s * period), to = Math.min(period, end - s * period);
      g.fillRect(x(from), (s - first) * height + 1, Math.max(1, x(to) - x(from)), Math.max(1, height - 2));
    }
  };
  const t0 = first * period;
  for (const i of within(store.intervals, t0, (last + 1) * period)) draw(i.start_ns, i.ns, colour("other"));
  for (let i = from(store.quanta, t0); i < store.quanta.length; i++) {
    const q = store.quanta[i];
    if (q.start_ns > t1) break;
    draw(q.start_ns, q.end_ns, phaseColour(q.phase));
  }
  g.strokeStyle = colour("mark-line");
  for (const e of within(store.events, t0, t1)) {
    if (e.kind !== "bookmark") continue;
    const s = Math.floor(e.ns / period);
    const at = Math.round(x(e.ns - s * period)) + 0.5;
    g.beginPath(); g.moveTo(at, (s - first) * height); g.lineTo(at, (s - first + 1) * height); g.stroke();
  }
  document.getElementById("scope-note").textContent =
    `${STRIPS} strips of ${+(period / 1e6).toFixed(3)} ms from the run's beginning on; a beat is ${+(beat / 1e3).toFixed(1)} µs`;
}
