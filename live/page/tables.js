// Tables: mutators and events. Text is set as text; nothing that came from the program is taken for markup.

function cell(text) {
  const td = document.createElement("td");
  td.textContent = text;
  return td;
}

function showMutators(store, t0, t1) {
  const all = new Map();
  for (const s of within(store.stops, t0, t1)) {
    const m = all.get(s.mutator) || { stops: 0, sum: 0, max: 0, cancelled: 0 };
    m.stops += s.stops;
    m.sum += s.sum_ns;
    m.max = Math.max(m.max, s.max_ns);
    m.cancelled += s.cancelled || 0;
    all.set(s.mutator, m);
  }
  const rows = [...all].sort((a, b) => b[1].max - a[1].max).slice(0, 50).map(([name, m]) => {
    const tr = document.createElement("tr");
    tr.append(cell(name), cell(m.stops), cell(m.stops ? micros(m.sum / m.stops) : "–"), cell(m.stops ? micros(m.max) : "–"), cell(m.cancelled));
    return tr;
  });
  document.querySelector("#mutators tbody").replaceChildren(...rows);
}

let shownEvents = "";

function showEvents(store, t1, go) {
  const list = store.events.slice(0, from(store.events, t1 + 1)).slice(-30).reverse();
  const key = `${store.events.length} ${list.length ? list[0].ns : ""} ${t1 >= store.now}`;
  if (key === shownEvents) return;
  shownEvents = key;
  const rows = list.map((r) => {
    const tr = document.createElement("tr");
    tr.className = r.kind === "bookmark" ? "bookmark" : BAD.includes(r.kind) ? "bad" : "";
    tr.tabIndex = 0;
    tr.append(cell((r.ns / 1e9).toFixed(3)), cell((r.kind === "bookmark" ? "bookmark: " : "") + EVENT_TEXT[r.kind](r)));
    tr.addEventListener("click", () => go(r.ns));
    tr.addEventListener("keydown", (e) => { if (e.key === "Enter") go(r.ns); });
    return tr;
  });
  document.querySelector("#events tbody").replaceChildren(...rows);
}

let shownTiles = "";

function showTiles(list) {
  const key = JSON.stringify(list);
  if (key === shownTiles) return;
  shownTiles = key;
  document.getElementById("tiles").replaceChildren(...list.map(([name, value, bad]) => {
    const div = document.createElement("div");
    div.className = bad ? "bad" : "";
    const b = document.createElement("b");
    b.textContent = value;
    const span = document.createElement("span");
    span.textContent = name;
    div.append(b, span);
    return div;
  }));
}
