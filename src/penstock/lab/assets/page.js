"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const T = data.units.length, d = data.keys.length;

  // Rows as page.py writes them: "=" repeats the row before, a single number stands for all keys.
  const unpack = (rows) => {
    let last;
    return rows.map((row) => (last = row === "=" ? last : Array.isArray(row) ? row : Array(d).fill(row)));
  };
  const column = (rows, k) => rows.map((row) => row[k]);
  data.truth = unpack(data.truth);
  for (const track of data.tracks) {
    for (const name of ["released", "below", "above"]) track[name] = unpack(track[name]);
    track.fresh = track.fresh.map((row) => (typeof row === "string" ? [...row].map((flag) => flag === "1") : Array(d).fill(row === 1)));
  }
  const totals = data.keys.map((_, k) => data.truth.reduce((sum, row) => sum + row[k], 0));
  const order = [...data.keys.keys()].sort((a, b) => totals[b] - totals[a]);

  const state = { key: order[0], track: 0, from: 0, to: Math.min(T, innerWidth < 760 ? 120 : T) - 1 }; // a phone begins with less
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const show = (x, digits = 1) => (x == null ? "unknown" : x.toLocaleString("en", { maximumFractionDigits: digits }));
  const precise = (x) => (x == null ? "unknown" : String(Number(x.toPrecision(4))));
  const note = (parent, ...parts) => parent.replaceChildren(...parts.map((part) => {      // [text] is bold
    if (!Array.isArray(part)) return document.createTextNode(part);
    const node = document.createElement("b");
    node.textContent = part[0];
    if (part[1]) node.className = part[1];
    return node;
  }));

  // The chosen station under the chosen mechanism, as columns.
  let now;
  const choose = () => {
    const track = data.tracks[state.track], k = state.key;
    const released = column(track.released, k), below = column(track.below, k), above = column(track.above, k);
    now = {
      track, released, truth: column(data.truth, k), fresh: column(track.fresh, k),
      low: released.map((x, t) => (x == null || below[t] == null ? null : x - below[t])),
      high: released.map((x, t) => (x == null || above[t] == null ? null : x + above[t])),
    };
  };

  // Charts. All three share the visible range of units.
  const xs = [...Array(T).keys()];
  const charts = {};
  const steps = uPlot.paths.stepped({ align: 1 });
  const font = () => "12px " + getComputedStyle(document.body).fontFamily;
  const xAxis = (labels) => ({
    stroke: css("--muted"), font: font(), grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false }, space: 62, gap: 8,
    size: labels ? 44 : 8, incrs: [1, 2, 3, 6, 12, 24, 48, 72, 168, 336, 672, 1344, 2688, 5376],
    values: (_, splits) => splits.map((t) => (labels && Number.isInteger(t) && data.units[t] ? data.units[t].replace(/ (\S+)$/, "\n$1") : "")),
  });
  const yAxis = () => ({ stroke: css("--muted"), font: font(), grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false }, size: 52, space: 34 });
  const cursor = () => ({
    y: false, points: { show: false }, sync: { key: "penstock" },
    drag: { x: true, y: false, setScale: false, dist: 4 },
    bind: { dblclick: () => () => { setView(0, T - 1); return null; } },
  });
  const select = (u) => {
    if (u.select.width < 4) return;
    const from = Math.round(u.posToVal(u.select.left, "x")), to = Math.round(u.posToVal(u.select.left + u.select.width, "x"));
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    setView(from, to);
  };
  const inView = (values) => values.slice(state.from, state.to + 1).filter((x) => x != null);
  const most = (values, otherwise) => inView(values).reduce((a, b) => Math.max(a, b), otherwise);
  const least = (values, otherwise) => inView(values).reduce((a, b) => Math.min(a, b), otherwise);

  // A very wide interval may leave the picture; the lines may not.
  const mainRange = () => {
    const top = Math.max(most(now.truth, 1), most(now.released, 1)), bottom = Math.min(0, least(now.released, 0));
    const high = Math.max(top, Math.min(most(now.high, top), 1.5 * top));
    const low = Math.min(bottom, Math.max(least(now.low, bottom), -0.3 * high));
    const room = (high - low) * 0.06;
    return [low - 1.6 * room, high + room];
  };

  const drawMain = (u) => {
    const { ctx, bbox } = u, dpr = devicePixelRatio || 1;
    const x = (t) => u.valToPos(t, "x", true), y = (v) => u.valToPos(v, "y", true);
    const per = x(1) - x(0), ink = css("--release"), paper = css("--card");
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    // The strip: a tick for each fresh publication, a hairline where the last one is repeated.
    ctx.fillStyle = ink;
    const foot = bbox.top + bbox.height, wide = Math.max(dpr, Math.min(per * 0.6, 8 * dpr));
    for (let t = state.from; t <= state.to; t++) {
      if (now.fresh[t]) ctx.fillRect(x(t) - wide / 2, foot - 9 * dpr, wide, 8 * dpr);
      else ctx.fillRect(x(t) - per / 2, foot - 2 * dpr, per, dpr);
    }
    const dots = inView(now.fresh).filter(Boolean).length, roomy = per >= 9 * dpr;
    const someDots = roomy || dots * 9 * dpr < bbox.width;
    for (let t = state.from; t <= state.to; t++) {
      if (now.released[t] == null || !(now.fresh[t] ? someDots : roomy)) continue;
      ctx.beginPath();
      ctx.arc(x(t), y(now.released[t]), (now.fresh[t] ? 4 : 3) * dpr, 0, 7);
      ctx.fillStyle = now.fresh[t] ? ink : paper;
      ctx.strokeStyle = now.fresh[t] ? paper : ink;
      ctx.lineWidth = 1.5 * dpr;
      ctx.fill();
      ctx.stroke();
    }
    ctx.restore();
    // Flags with the numbers of the notes, pushed apart where they would cover each other.
    let free = -Infinity;
    data.notes.forEach(([unit], i) => {
      if (unit < state.from || unit > state.to) return;
      const at = x(unit), flag = Math.max(at, free), top = bbox.top - 12 * dpr;
      free = flag + 22 * dpr;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = css("--note");
      ctx.lineWidth = dpr;
      ctx.setLineDash([4 * dpr, 4 * dpr]);
      ctx.beginPath();
      ctx.moveTo(flag, top);
      ctx.lineTo(at, bbox.top);
      ctx.lineTo(at, foot);
      ctx.stroke();
      ctx.beginPath();
      ctx.arc(flag, top, 10 * dpr, 0, 7);
      ctx.fill();
      ctx.fillStyle = paper;
      ctx.font = `bold ${11 * dpr}px sans-serif`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      ctx.fillText(String(i + 1), flag, top + 0.5 * dpr);
      ctx.restore();
    });
  };

  const drawLimit = (u) => {
    const { ctx, bbox } = u, dpr = devicePixelRatio || 1, y = u.valToPos(data.epsilon, "y", true);
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = css("--limit");
    ctx.lineWidth = 2 * dpr;
    ctx.setLineDash([8 * dpr, 4 * dpr]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.font = `bold ${12 * dpr}px sans-serif`;
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    ctx.fillText(`promised: epsilon = ${data.promised}`, bbox.left + bbox.width - 4 * dpr, y - 4 * dpr);
    ctx.restore();
  };

  const plot = (id, height, padding, range, series, columns, hooks, bands, labels) => {
    const box = $(id);
    box.style.minHeight = `${height}px`; // so that nothing jumps while the chart is made anew
    charts[id]?.destroy();
    charts[id] = new uPlot({
      width: box.clientWidth, height, padding, series: [{}, ...series], bands, cursor: cursor(), legend: { show: false },
      scales: { x: { time: false, range: () => [state.from - 0.5, state.to + 0.5] }, y: { range } },
      axes: [xAxis(labels), yAxis()], hooks: { setSelect: [select], ...hooks },
    }, [xs, ...columns], box);
  };

  const draw = () => {
    const track = now.track, narrow = innerWidth < 760, edge = { stroke: css("--edge"), width: 1, paths: steps, points: { show: false } };
    const line = (stroke, width, more) => ({ stroke, width, points: { show: false }, ...more });
    plot("chart", narrow ? 300 : 400, [28, 26, 0, 0], mainRange,
      [edge, edge, line(css("--release"), 2.5, { paths: steps }), line(css("--truth"), 1.4)],
      [now.high, now.low, now.released, now.truth],
      { draw: [drawMain], setCursor: [(u) => tell(u.cursor.idx)] }, [{ series: [1, 2], fill: css("--band") }], true);
    const ceiling = Math.max(data.epsilon, track.worst ?? 0);
    plot("window", 170, [8, 26, 0, 0], () => [0, ceiling * 1.2],
      [line(css("--release"), 2, { paths: steps, fill: css("--band") })], [track.windowSpent], { draw: [drawLimit] }, [], false);
    const bars = uPlot.paths.bars({ size: [0.6, 30], align: 0 });
    plot("spent", 150, [8, 26, 0, 0], () => [0, (most(track.spent, 0) || data.epsilon) * 1.12],
      [line(css("--release"), 0, { paths: bars, fill: css("--release") })], [track.spent], {}, [], true);
  };

  const tell = (t) => {
    if (t == null) return note($("readout"), "Point at the chart to read a unit.");
    const error = now.released[t] == null ? null : Math.abs(now.released[t] - now.truth[t]);
    note($("readout"), [data.units[t]], " · truth ", [show(now.truth[t])], " · released ", [show(now.released[t])],
      now.low[t] == null || now.high[t] == null ? ", interval unknown" : ` (${show(now.low[t])} to ${show(now.high[t])})`,
      now.fresh[t] ? ", fresh" : ", repeated", " · off by ", [show(error)], " · epsilon spent ", [precise(now.track.spent[t])]);
  };

  const describe = () => {
    const known = xs.filter((t) => now.low[t] != null && now.high[t] != null), inside = known.filter((t) => now.low[t] <= now.truth[t] && now.truth[t] <= now.high[t]);
    const fresh = now.fresh.filter(Boolean).length, seen = xs.filter((t) => now.released[t] != null);
    const mae = seen.reduce((sum, t) => sum + Math.abs(now.released[t] - now.truth[t]), 0) / (seen.length || 1);
    note($("chart-sub"), [data.keys[state.key]], ` under ${now.track.title}: published afresh in `, [`${show(fresh)} of ${show(T)}`], " units, off by ", [show(mae)],
      " on average", ...(known.length ? ["; the interval held the truth in ", [`${show((100 * inside.length) / known.length)} %`], " of units."] : ["."]));
    const { worst, kept } = now.track;
    note($("budget-sub"), `${now.track.title}: no ${data.window} units in a row may cost more than epsilon = ${data.promised}. The dearest window cost ${precise(worst)}: `,
      kept ? ["✓ the promise was kept.", "verdict"] : ["✗ the promise was broken.", "verdict broken"]);
    $("chart").setAttribute("aria-label", `True and released counts of ${data.keys[state.key]} under ${now.track.title}`);
    $("window").setAttribute("aria-label", `Epsilon of every window under ${now.track.title}; dearest ${precise(worst)} of ${data.promised}`);
    $("spent").setAttribute("aria-label", `Epsilon spent in each unit under ${now.track.title}`);
    $("heat-title").textContent = `Released by ${now.track.title}`;
    for (const row of $("errors").tBodies[0].rows) row.classList.toggle("chosen", row.dataset.mechanism === now.track.mechanism);
  };

  // Heat maps: one pixel a cell, scaled by the browser.
  const sorted = data.truth.flat().sort((a, b) => a - b);
  const hottest = Math.max(1, sorted[Math.floor((sorted.length - 1) * 0.998)]);
  const rampOf = () => {
    const stops = css("--ramp").split(",").map((hex) => [1, 3, 5].map((i) => parseInt(hex.trim().slice(i, i + 2), 16)));
    return Array.from({ length: 256 }, (_, i) => {
      const at = (i / 255) * (stops.length - 1), a = Math.min(Math.floor(at), stops.length - 2);
      return stops[a].map((c, j) => Math.round(c + (stops[a + 1][j] - c) * (at - a)));
    });
  };
  const paint = (canvas, width, height, shade) => {
    canvas.width = width;
    canvas.height = height;
    const image = new ImageData(width, height), colours = rampOf();
    for (let i = 0; i < width * height; i++) {
      image.data.set(colours[Math.round(255 * Math.min(1, Math.max(0, shade(i % width, Math.floor(i / width)))))], 4 * i);
      image.data[4 * i + 3] = 255;
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
  };
  const heat = (value) => Math.sqrt(Math.max(0, value ?? 0) / hottest);
  const rowHeight = Math.max(2, Math.min(12, 420 / d));
  const drawHeat = () => {
    paint($("heat-truth"), T, d, (t, r) => heat(data.truth[t][order[r]]));
    paint($("heat-release"), T, d, (t, r) => heat(now.track.released[t][order[r]]));
    paint($("ramp"), 256, 1, (t) => t / 255);
    $("ramp-top").textContent = `${show(hottest)} or more taps a unit`;
    for (const canvas of [$("heat-truth"), $("heat-release")]) {
      canvas.style.height = `${rowHeight * d}px`;
      const mark = canvas.nextElementSibling;
      mark.style.top = `${rowHeight * order.indexOf(state.key) - 2}px`;
      mark.style.height = `${rowHeight + 4}px`;
    }
  };
  const cell = (event) => {
    const box = event.target.getBoundingClientRect(), clamp = (x, n) => Math.max(0, Math.min(n - 1, Math.floor(x)));
    return [clamp(((event.clientX - box.left) / box.width) * T, T), order[clamp(((event.clientY - box.top) / box.height) * d, d)]];
  };

  // Choosing.
  const update = () => {
    choose();
    describe();
    draw();
    drawHeat();
    tell(null);
    setView(state.from, state.to);
  };
  const setKey = (k) => {
    state.key = k;
    $("station").value = String(k);
    update();
  };
  const setView = (from, to) => {
    const span = Math.max(Math.min(5, T - 1), Math.min(T - 1, to - from));
    state.from = Math.max(0, Math.min(T - 1 - span, Math.min(from, to)));
    state.to = state.from + span;
    for (const chart of Object.values(charts)) chart.setScale("x", { min: state.from - 0.5, max: state.to + 0.5 });
    const all = span === T - 1;
    for (const button of document.querySelectorAll("[data-zoom]")) {
      const way = button.dataset.zoom;
      button.disabled = way === "in" ? span <= 5 : way === "earlier" ? state.from === 0 : way === "later" ? state.to === T - 1 : all;
    }
    try {
      history.replaceState(null, "", `#${new URLSearchParams({ station: data.keys[state.key], mechanism: now.track.mechanism, ...(all ? {} : { from: state.from, to: state.to }) })}`);
    } catch { /* a page that may not name its place still works */ }
  };

  for (const k of order) $("station").add(new Option(`${data.keys[k]} · ${show(totals[k] / T, 0)} a unit`, k));
  $("station").addEventListener("change", () => setKey(Number($("station").value)));
  data.tracks.forEach((track, i) => {
    const label = document.createElement("label"), input = document.createElement("input"), text = document.createElement("span");
    Object.assign(input, { type: "radio", name: "mechanism", value: i, title: track.title });
    text.textContent = track.mechanism;
    label.append(input, text);
    input.addEventListener("change", () => { state.track = i; update(); });
    $("mechanisms").append(label);
  });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      const { from, to } = state, half = Math.max(1, Math.round((to - from) / 4)), jump = Math.max(1, Math.round((to - from) / 2));
      const [a, b] = { in: [from + half, to - half], out: [from - 2 * half, to + 2 * half], earlier: [from - jump, to - jump], later: [from + jump, to + jump], all: [0, T - 1] }[button.dataset.zoom];
      setView(a, b);
    });
  }
  data.notes.forEach(([unit, text], i) => {
    const item = document.createElement("li"), button = document.createElement("button");
    for (const [tag, words] of [["b", i + 1], ["time", data.units[unit]], ["span", text]]) {
      const part = document.createElement(tag);
      part.textContent = words;
      button.append(part);
    }
    button.type = "button";
    button.title = "Zoom to this";
    button.addEventListener("click", () => {
      setView(unit - 24, unit + 24);
      $("h-chart").scrollIntoView({ block: "center", behavior: "smooth" });
    });
    item.append(button);
    $("notes").append(item);
  });
  if (!data.notes.length) $("notes").remove();
  for (const canvas of [$("heat-truth"), $("heat-release")]) {
    canvas.addEventListener("click", (event) => setKey(cell(event)[1]));
    canvas.addEventListener("pointermove", (event) => {
      const [t, k] = cell(event);
      note($("heat-readout"), [data.keys[k]], ` · ${data.units[t]} · truth `, [show(data.truth[t][k])], " · released ", [show(now.track.released[t][k])]);
    });
  }
  note($("heat-readout"), "Point at a cell to read it.");

  // The table of errors, sorted by the column that was asked for.
  for (const head of document.querySelectorAll("[data-sort]")) {
    const button = document.createElement("button"), which = Number(head.dataset.sort) + 1;
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const body = $("errors").tBodies[0], value = (row) => (row.cells[which].dataset.value === "" ? Infinity : Number(row.cells[which].dataset.value));
      body.append(...[...body.rows].sort((a, b) => value(a) - value(b)));
      for (const other of document.querySelectorAll("[data-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", "ascending");
    });
  }

  // A link may carry the choice: #station=…&mechanism=…&from=…&to=…
  const wanted = new URLSearchParams(location.hash.slice(1));
  const key = data.keys.indexOf(wanted.get("station")), which = data.tracks.findIndex((track) => track.mechanism === wanted.get("mechanism"));
  if (key >= 0) state.key = key;
  if (which >= 0) state.track = which;
  if (wanted.has("from") && wanted.has("to")) {
    const [from, to] = [Number(wanted.get("from")), Number(wanted.get("to"))];
    if (0 <= from && from < to && to < T) Object.assign(state, { from, to });
  }
  $("mechanisms").querySelectorAll("input")[state.track].checked = true;
  setKey(state.key);

  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); setView(state.from, state.to); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
})();
