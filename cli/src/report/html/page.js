"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const subjects = data.subjects;
  const several = subjects.length > 1;
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));

  // Numbers for people, as the page has them.
  const trim = (v) => String(Number(v.toFixed(3)));
  const time = (ns) => {
    if (ns === 0) return "0";
    if (ns < 1e3) return trim(ns) + " ns";
    if (ns < 1e6) return trim(ns / 1e3) + " µs";
    if (ns < 1e9) return trim(ns / 1e6) + " ms";
    if (ns < 60e9 || ns % 60e9 !== 0) return trim(ns / 1e9) + " s";
    const [h, m] = [Math.floor(ns / 3600e9), (ns / 60e9) % 60];
    return [h ? h + " h" : "", m ? m + " min" : ""].filter(Boolean).join(" ");
  };
  const bytes = (n) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;
    for (; n >= 1024 && i + 1 < units.length; i++) n /= 1024;
    return n.toFixed(i ? 1 : 0) + " " + units[i];
  };
  const percent = (v) => v.toFixed(1) + " %";
  const READINGS = {
    utilization: [["utilization", "mean", percent], ["worst", "worst", percent]],
    heap: [["free_min", "least free", bytes], ["free_max", "most free", bytes]],
    pauses: [["quantum_max_ms", "longest quantum", (v) => time(v * 1e6)], ["stop_max_ms", "longest stop", (v) => time(v * 1e6)]],
    allocation: [["allocated", "allocated here", bytes]],
    priority: [["priority_min", "lowest", String], ["priority_max", "highest", String]],
    work: [["finalization", "to finalization", String], ["references", "references cleared", String]],
    immortal: [["immortal_min", "least free", bytes], ["immortal_max", "most free", bytes]],
  };

  const save = (name, type, content) => {
    const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };

  // Fields of CSV: quoted where they must be, and no formula of a spreadsheet.
  const field = (v) => {
    if (v === null || v === undefined) return "";
    if (typeof v === "number") return String(v);
    const s = /^[=+\-@\t\r]/.test(v) ? "'" + v : String(v);
    return /[",\n\r]/.test(s) ? '"' + s.replaceAll('"', '""') + '"' : s;
  };
  const csv = (rows) => rows.map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";

  // Zoom: one stretch of time for all pictures; the data are stretched, the marks are made anew.
  const figures = all("figure[data-group]").map((figure) => {
    const n = (name) => Number(figure.dataset[name]);
    const svg = figure.querySelector("svg");
    const axis = svg.querySelector(".x-axis");
    return { figure, svg, axis, original: axis.innerHTML, plotted: svg.querySelector(".plotted"), from: n("from"), to: n("to"),
      left: n("left"), right: n("right"), top: n("top"), bottom: n("bottom"), name: figure.id.split("-").pop() };
  });
  const whole = figures.length ? { from: figures[0].from, to: figures[0].to } : { from: 0, to: 1 };
  let shown = { ...whole };
  const zoomed = () => shown.from > whole.from || shown.to < whole.to;

  const element = (name, attributes, parent) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    if (parent) parent.append(e);
    return e;
  };
  const place = (f, ns) => f.left + ((ns - shown.from) / (shown.to - shown.from)) * (f.right - f.left);

  const marks = (f) => {
    f.axis.replaceChildren();
    const least = (shown.to - shown.from) / 9;
    const power = 10 ** Math.floor(Math.log10(least));
    const long = [60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800].map((s) => s * 1e9);
    const short = [1, 2, 5, 10].map((s) => s * power);
    const step = (least > 30e9 && long.find((s) => s >= least)) || short.find((s) => s >= least);
    for (let v = Math.ceil(shown.from / step) * step; v <= shown.to; v += step) {
      const x = place(f, v);
      element("line", { x1: x, x2: x, y1: f.top, y2: f.bottom, stroke: "var(--grid)" }, f.axis);
      const text = element("text", { x, y: f.bottom + 28, "text-anchor": "middle", "font-size": 20, fill: "var(--ink)" }, f.axis);
      text.textContent = time(v);
    }
    element("line", { x1: f.left, x2: f.right, y1: f.bottom, y2: f.bottom, stroke: "var(--axis)" }, f.axis);
  };

  const show = (from, to) => {
    const length = Math.min(Math.max(to - from, 1000), whole.to - whole.from);
    const start = Math.min(Math.max(from, whole.from), whole.to - length);
    shown = { from: start, to: start + length };
    for (const f of figures) {
      if (!zoomed()) {
        f.axis.innerHTML = f.original;
        f.plotted.removeAttribute("transform");
        continue;
      }
      const k = (f.to - f.from) / (shown.to - shown.from);
      const x = f.left + ((shown.from - f.from) / (f.to - f.from)) * (f.right - f.left);
      f.plotted.setAttribute("transform", `translate(${f.left - k * x} 0) scale(${k} 1)`);
      marks(f);
    }
    table();
  };

  const at = (f, event) => {
    const box = f.svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * f.svg.viewBox.baseVal.width;
    const part = Math.min(Math.max((x - f.left) / (f.right - f.left), 0), 1);
    return shown.from + part * (shown.to - shown.from);
  };

  const reading = (f, ns) => {
    const words = subjects.map((s, i) => {
      const list = s.series.at_ms;
      let low = 0, high = list.length;
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (list[middle] * 1e6 <= ns) low = middle; else high = middle;
      }
      const parts = (READINGS[f.name] || []).map(([key, name, words]) => {
        // Where the log tells nothing, what it told last.
        if (!s.series[key]) return null;
        let i = low;
        while (i > 0 && s.series[key][i] === null) i--;
        const v = s.series[key][i];
        return v === null || v === undefined ? null : name + " " + words(v);
      }).filter(Boolean);
      return parts.length ? (several ? i + 1 + ": " : "") + parts.join(", ") : null;
    }).filter(Boolean);
    f.figure.querySelector(".reading").textContent = ["at " + time(Math.round(ns / 1e3) * 1e3), ...words].join(" · ");
  };

  for (const f of figures) {
    let brush = null, start = 0;
    const hair = element("line", { class: "hair", y1: f.top, y2: f.bottom, visibility: "hidden" }, f.svg);
    const cursor = (ns) => {
      for (const key of ["x1", "x2"]) hair.setAttribute(key, place(f, ns));
      hair.setAttribute("visibility", "visible");
      reading(f, ns);
    };
    const done = () => {
      if (brush) brush.remove();
      brush = null;
    };
    f.svg.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      start = at(f, e);
      brush = element("rect", { class: "brush", y: f.top, height: f.bottom - f.top, x: place(f, start), width: 0 }, f.svg);
      f.svg.setPointerCapture(e.pointerId);
    });
    f.svg.addEventListener("pointermove", (e) => {
      const now = at(f, e);
      cursor(now);
      if (!brush) return;
      const [a, b] = [place(f, start), place(f, now)].sort((a, b) => a - b);
      brush.setAttribute("x", a);
      brush.setAttribute("width", b - a);
    });
    f.svg.addEventListener("pointerup", (e) => {
      const wide = brush && Number(brush.getAttribute("width")) > 6;
      done();
      const end = at(f, e);
      if (wide) show(Math.min(start, end), Math.max(start, end));
    });
    f.svg.addEventListener("pointercancel", done);
    f.svg.addEventListener("pointerleave", () => hair.setAttribute("visibility", "hidden"));
    f.svg.addEventListener("dblclick", () => show(whole.from, whole.to));
    f.svg.addEventListener("keydown", (e) => {
      const length = shown.to - shown.from;
      const middle = (shown.from + shown.to) / 2;
      const moves = {
        "+": [middle - length / 4, middle + length / 4],
        "=": [middle - length / 4, middle + length / 4],
        "-": [middle - length, middle + length],
        ArrowLeft: [shown.from - length / 4, shown.to - length / 4],
        ArrowRight: [shown.from + length / 4, shown.to + length / 4],
        0: [whole.from, whole.to],
        Escape: [whole.from, whole.to],
      };
      const move = moves[e.key];
      if (!move || e.ctrlKey || e.metaKey || e.altKey) return;
      e.preventDefault();
      show(...move);
      cursor((shown.from + shown.to) / 2);
    });
  }

  // The event table: filtered by words, by kind, and by what the pictures show.
  const MOST = 500;
  const body = document.querySelector("#event-table tbody");
  const events = subjects.flatMap((s, i) => s.events.map((row) => [i, ...row]));
  const kinds = document.getElementById("kind");
  const filter = document.getElementById("filter");
  if (kinds) {
    for (const kind of [...new Set(events.map((e) => e[3]))].sort()) kinds.append(new Option(kind, kind));
  }
  const chosen = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    return events.filter(([, ms, line, kind, text]) => {
      const ns = ms * 1e6;
      const all = `${kind} ${text} ${line}`.toLowerCase();
      return (!zoomed() || (ns >= shown.from && ns <= shown.to)) && (!kinds.value || kind === kinds.value) &&
        words.every((word) => all.includes(word));
    });
  };
  function table() {
    if (!body) return;
    const rows = chosen();
    body.replaceChildren(...rows.slice(0, MOST).map(([i, ms, line, kind, text]) => {
      const row = document.createElement("tr");
      const cells = [(ms / 1e3).toFixed(3) + " s", line, kind, text];
      if (several) cells.unshift(i + 1);
      for (const cell of cells) row.insertCell().textContent = cell;
      return row;
    }));
    const first = rows.length > MOST ? `, the first ${MOST} shown` : "";
    document.getElementById("count").textContent = `${rows.length} of ${events.length}${first}${zoomed() ? ", zoomed" : ""}`;
  }
  if (body) {
    filter.addEventListener("input", table);
    kinds.addEventListener("change", table);
    table();
  }

  // What leaves the page.
  const exports = {
    json: () => save("metronome-report.json", "application/json", JSON.stringify(data, null, 1)),
    csv: () => {
      const names = [...new Set(subjects.flatMap((s) => Object.keys(s.series)))];
      const rows = subjects.flatMap((s) => s.series.at_ms.map((_, i) => [s.name, ...names.map((n) => (s.series[n] || [])[i])]));
      save("metronome-series.csv", "text/csv", csv([["run", ...names], ...rows]));
    },
    events: () => {
      const rows = chosen().map(([i, ...row]) => [subjects[i].name, ...row]);
      save("metronome-events.csv", "text/csv", csv([["run", "at_ms", "line", "kind", "text"], ...rows]));
    },
  };
  for (const b of all("[data-export]")) b.addEventListener("click", exports[b.dataset.export]);

  // A picture by itself has no page to take its colours from.
  const alone = (svg) => {
    const copy = svg.cloneNode(true);
    const box = svg.viewBox.baseVal;
    all(".hair, .brush", copy).forEach((e) => e.remove());
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    copy.removeAttribute("tabindex");
    const style = element("style", {});
    style.textContent = "text{font-family:sans-serif;paint-order:stroke;stroke:var(--card);stroke-width:5px;stroke-linejoin:round}polyline{stroke-linecap:round;stroke-linejoin:round}" +
      ".plotted *{vector-effect:non-scaling-stroke}";
    copy.prepend(style, element("rect", { width: box.width, height: box.height, fill: "var(--card)" }));
    const look = getComputedStyle(document.documentElement);
    const text = new XMLSerializer().serializeToString(copy);
    return text.replace(/var\((--[a-z0-9]+)\)/g, (_, name) => look.getPropertyValue(name).trim());
  };
  for (const b of all("[data-save]")) {
    b.addEventListener("click", () => {
      const figure = b.closest("figure");
      const svg = figure.querySelector("svg");
      const name = "metronome-" + figure.id.split("-").pop();
      const text = alone(svg);
      if (b.dataset.save === "svg") return save(name + ".svg", "image/svg+xml", text);
      const image = new Image();
      image.onload = () => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [image.width, image.height];
        canvas.getContext("2d").drawImage(image, 0, 0);
        canvas.toBlob((blob) => save(name + ".png", "image/png", blob));
      };
      image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
    });
  }

  for (const b of all("[data-theme]")) {
    if (b === document.documentElement) continue;
    b.addEventListener("click", () => {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    });
  }
  for (const b of all("[data-print]")) b.addEventListener("click", () => window.print());
  // Paper cannot be unfolded.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = all("details:not([open])");
    folded.forEach((d) => { d.open = true; });
  });
  window.addEventListener("afterprint", () => folded.forEach((d) => { d.open = false; }));
})();
