// Connects, and draws what is new.

const store = new Store();
const clock = new Clock(store);
const $ = (id) => document.getElementById(id);
let connection = "connecting";

function connect() {
  // The token, if there is one, is in this page's own address.
  const stream = new EventSource(`events${location.search}`);
  stream.onopen = () => { connection = "connected"; };
  stream.onerror = () => {
    connection = stream.readyState === EventSource.CLOSED ? "refused, or too many clients: reload" : "connection lost, trying again";
  };
  stream.onmessage = (message) => {
    for (const record of JSON.parse(message.data)) store.take(record);
  };
}

function span() {
  return Number($("span").value) * 1e9;
}

function showState(t) {
  const b = store.begin;
  $("source").textContent = b ? `${b.source}${b.pid ? `, process ${b.pid}` : ""}` : "";
  const shown = { live: "live", pause: "paused", play: "playing" }[clock.mode];
  const end = store.brokenOff ? ", the recording breaks off" : store.ended ? ", the heap is closed" : "";
  const text = `${connection}${end} · ${shown} at ${(t / 1e9).toFixed(2)} s of ${(store.now / 1e9).toFixed(2)} s`;
  if ($("state").textContent !== text) $("state").textContent = text;
  $("play").textContent = clock.mode === "pause" ? "Play" : "Pause";
  const begins = store.begins();
  if (document.activeElement !== $("slide") || clock.mode !== "pause") {
    $("slide").value = store.now > begins ? 1000 * (t - begins) / (store.now - begins) : 1000;
  }
  $("lost").hidden = store.lost === 0;
  $("lost").textContent = `${store.lost} records were lost: figures and pictures lack them. The events below say where.`;
}

let drawn = "";

function tick(ms) {
  const t = clock.now(ms);
  const key = [store.version, t, span(), $("strip").value, innerWidth, document.documentElement.dataset.theme,
    matchMedia("(prefers-color-scheme: dark)").matches, connection, clock.mode].join();
  if (key !== drawn) {
    drawn = key;
    const t1 = Math.max(t, 1), t0 = t1 - span();
    showState(t);
    showTiles(tiles(store, t0, t1));
    drawUtilization(store, t0, t1);
    drawHeap(store, t0, t1);
    drawHistogram(store, t0, t1);
    drawScope(store, t1);
    showMutators(store, t0, t1);
    showEvents(store, t1, (ns) => clock.go(ns + span() / 2));
  }
}

/** Up to twenty pictures a second, and none while nobody looks. */
function loop(ms) {
  const before = performance.now();
  tick(ms);
  // Much to draw is drawn less often: the page shall not take the CPU that it shows.
  setTimeout(() => requestAnimationFrame(loop), Math.max(50, 3 * (performance.now() - before)));
}

$("play").onclick = () => clock.toggle();
$("live").onclick = () => { clock.mode = "live"; };
$("back").onclick = () => clock.go(clock.at - span() / 4);
$("on").onclick = () => clock.go(clock.at + span() / 4);
$("slide").oninput = () => {
  const begins = store.begins();
  clock.go(begins + (store.now - begins) * Number($("slide").value) / 1000);
};
$("speed").onchange = () => { clock.speed = Number($("speed").value); };
$("theme").onclick = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
};
$("save").onclick = () => {
  const link = document.createElement("a");
  // It says itself that it ends before the heap does.
  const lines = store.ended ? store.lines : [...store.lines, { ns: store.now, kind: "break_off" }];
  link.href = URL.createObjectURL(new Blob(lines.map((r) => `${JSON.stringify(r)}\n`), { type: "application/x-ndjson" }));
  link.download = "metronome.jsonl";
  link.click();
  URL.revokeObjectURL(link.href);
};
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey || ["INPUT", "SELECT", "BUTTON"].includes(e.target.tagName)) return;
  const keys = { " ": "play", ArrowLeft: "back", ArrowRight: "on", End: "live" };
  if (!keys[e.key]) return;
  e.preventDefault();
  $(keys[e.key]).click();
});

connect();
requestAnimationFrame(loop);
