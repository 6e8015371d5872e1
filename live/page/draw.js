// Drawing: a canvas as large as its place, colours of the theme, axes.

const PHASES = ["precollect", "mark", "postcollect", "sweep", "other"];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function phaseColour(phase) {
  return colour(PHASES.includes(phase) ? phase : "other");
}

/** The canvas, cleared, in units of CSS pixels. */
function canvas(id) {
  const c = document.getElementById(id);
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [c.clientWidth, c.clientHeight];
  if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) {
    c.width = Math.round(w * ratio);
    c.height = Math.round(h * ratio);
  }
  const g = c.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, h);
  g.font = "11px system-ui, sans-serif";
  return { g, w, h };
}

/** A step of 1, 2 or 5 times a power of ten that makes about `n` ticks. */
function niceStep(range, n) {
  const raw = range / n;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
}

const LEFT = 64, RIGHT = 8, TOP = 8, BOTTOM = 20;

/** A frame over time: maps times and values (0 to `top`) to places, with ticks. */
function frame(id, t0, t1, top, label) {
  const { g, w, h } = canvas(id);
  const x = (t) => LEFT + (t - t0) / (t1 - t0) * (w - LEFT - RIGHT);
  const y = (v) => h - BOTTOM - v / top * (h - TOP - BOTTOM);
  const under = () => {
    g.strokeStyle = colour("line");
    g.fillStyle = colour("soft");
    g.lineWidth = 1;
    const seconds = niceStep((t1 - t0) / 1e9, 8);
    g.textAlign = "center";
    for (let s = Math.ceil(t0 / 1e9 / seconds) * seconds; s * 1e9 <= t1; s += seconds) {
      const at = Math.round(x(s * 1e9)) + 0.5;
      g.beginPath(); g.moveTo(at, TOP); g.lineTo(at, h - BOTTOM); g.stroke();
      g.fillText(`${+s.toFixed(4)} s`, at, h - 6);
    }
    g.textAlign = "right";
    const step = label.step || niceStep(top, 4);
    for (let v = 0; v <= top * 1.0001; v += step) {
      g.fillText(label(v), LEFT - 6, y(v) + 4);
      g.beginPath(); g.moveTo(LEFT, Math.round(y(v)) + 0.5); g.lineTo(w - RIGHT, Math.round(y(v)) + 0.5); g.stroke();
    }
  };
  const clip = (draw) => {
    g.save();
    g.beginPath(); g.rect(LEFT, 0, w - LEFT - RIGHT, h - BOTTOM); g.clip();
    draw();
    g.restore();
  };
  return { g, w, h, x, y, under, clip };
}

/** Cycles as a shade behind, bookmarks as lines in front. */
function shadeCycles(f, store, t0, t1) {
  f.g.fillStyle = colour("cycle");
  for (let i = from(store.cycles, t0); i < store.cycles.length; i++) {
    const c = store.cycles[i];
    if (c.start > t1) break;
    const end = Math.min(c.ns, store.now);
    f.g.fillRect(f.x(c.start), TOP, Math.max(1, f.x(end) - f.x(c.start)), f.h - TOP - BOTTOM);
  }
}

function markBookmarks(f, store, t0, t1) {
  f.g.strokeStyle = f.g.fillStyle = colour("mark-line");
  f.g.textAlign = "left";
  for (const e of within(store.events, t0, t1)) {
    if (e.kind !== "bookmark") continue;
    const at = Math.round(f.x(e.ns)) + 0.5;
    f.g.beginPath(); f.g.moveTo(at, TOP); f.g.lineTo(at, f.h - BOTTOM); f.g.stroke();
    f.g.fillText(e.text.slice(0, 24), at + 3, f.h - BOTTOM - 5);
  }
}
