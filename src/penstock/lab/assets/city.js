"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const T = data.units.length, d = data.keys.length, hourly = data.series[0];
  const totals = data.keys.map((_, k) => hourly.truth.reduce((sum, row) => sum + row[k], 0));
  const order = [...data.keys.keys()].sort((a, b) => totals[b] - totals[a]);
  const narrow = () => innerWidth < 760;
  const state = { key: data.start.key, view: 0, hour: data.start.hour, from: 0, to: T - 1 };
  if (narrow() && T > 120) Object.assign(state, { from: Math.max(0, Math.min(T - 120, data.start.hour - 30)) });
  if (narrow() && T > 120) state.to = state.from + 119; // a phone begins with less
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const show = (x) => (x == null ? "unknown" : x.toLocaleString("en", { maximumFractionDigits: 1 }));
  const note = (parent, ...parts) => parent.replaceChildren(...parts.map((part) => {      // [text] is bold
    if (!Array.isArray(part)) return document.createTextNode(part);
    const node = document.createElement("b");
    node.textContent = part[0];
    return node;
  }));

  // The map.
  const made = (tag, attributes, parent) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    parent.append(node);
    return node;
  };
  const biggest = Math.max(1, ...hourly.truth.flat());
  const radius = (count) => 1.15 * Math.sqrt(Math.max(0, count) / biggest);
  const paths = [], spots = [];
  let chosen;
  const label = (text, k) => {
    const [x, y] = data.places[k], left = x < 0;
    for (const [name, value] of Object.entries({ x: x + (left ? -0.3 : 0.3), y: y - 0.22, "text-anchor": left ? "end" : "start" })) text.setAttribute(name, value);
    text.textContent = data.keys[k];
  };
  const drawMap = () => {
    const map = $("map"), xs = data.places.map((p) => p[0]), ys = data.places.map((p) => p[1]), room = 1.2;
    const [left, right, top, bottom] = [Math.min(...xs) - room, Math.max(...xs) + room, Math.min(...ys) - room, Math.max(...ys) + room];
    map.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
    for (const line of data.lines) {
      paths.push([made("path", { d: "M" + line.map((k) => data.places[k].join(" ")).join("L") }, map), line.some((k) => data.closed.hours.length && data.closed.stations.includes(k))]);
    }
    data.places.forEach(([x, y], k) => {
      const group = made("g", {}, map);
      made("circle", { cx: x, cy: y, r: 0.32, fill: "transparent" }, group);
      const spot = { group, disc: made("circle", { class: "disc", cx: x, cy: y, r: 0 }, group), ring: made("circle", { class: "ring", cx: x, cy: y, r: 0 }, group) };
      made("circle", { class: "dot", cx: x, cy: y, r: 0.06 }, group);
      made("title", {}, group).textContent = data.keys[k];
      group.addEventListener("click", () => setKey(k));
      spots[k] = spot;
    });
    for (const k of data.named) label(made("text", {}, map), k);
    chosen = made("text", { class: "chosen" }, map);
  };
  const setHour = (hour) => {
    state.hour = hour;
    $("hour").value = hour;
    $("hour-name").textContent = data.units[hour];
    spots.forEach((spot, k) => {
      spot.disc.setAttribute("r", radius(hourly.released[hour][k]));
      spot.ring.setAttribute("r", radius(hourly.truth[hour][k]));
      spot.group.classList.toggle("chosen", k === state.key);
    });
    for (const [path, closes] of paths) path.classList.toggle("shut", closes && data.closed.hours.includes(hour));
    label(chosen, state.key);
    const k = state.key, sums = [hourly.released, hourly.truth].map((rows) => rows[hour].reduce((a, b) => a + b, 0));
    const happened = hour === data.crash ? " · the publisher was killed in this hour" : data.closed.hours.includes(hour) ? " · the dashed line is closed" : "";
    note($("map-readout"), [data.keys[k]], " published ", [show(hourly.released[hour][k])], ` ± ${show(hourly.half)}, true ${show(hourly.truth[hour][k])} · all stations published `, [show(sums[0])], `, true ${show(sums[1])}${happened}`);
  };
  let playing = null;
  const play = (on) => {
    clearInterval(playing);
    playing = on ? setInterval(() => setHour((state.hour + 1) % T), 180) : null;
    $("play").textContent = on ? "❚❚ Pause" : "▶ Play";
    $("play").setAttribute("aria-pressed", String(on));
  };

  // The charts: both count in hours, whatever the view.
  const charts = {};
  const steps = uPlot.paths.stepped({ align: 1 });
  const font = () => "12px " + getComputedStyle(document.body).fontFamily;
  const xAxis = () => ({
    stroke: css("--muted"), font: font(), grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false }, space: 62, gap: 8, size: 44,
    incrs: [1, 2, 3, 6, 12, 24, 48, 72, 168, 336],
    values: (_, splits) => splits.map((t) => (Number.isInteger(t) && data.units[t] ? data.units[t].replace(/ (\S+)$/, "\n$1") : "")),
  });
  const yAxis = () => ({ stroke: css("--muted"), font: font(), grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false }, size: 58, space: 34 });
  const select = (u) => {
    if (u.select.width < 4) return;
    const [from, to] = [u.select.left, u.select.left + u.select.width].map((x) => Math.round(u.posToVal(x, "x")));
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    setView(from, to);
  };
  const plot = (id, height, padding, range, columns, series, hooks, bands) => {
    const box = $(id);
    box.style.minHeight = `${height}px`;
    charts[id]?.destroy();
    charts[id] = new uPlot({
      width: box.clientWidth, height, padding, series: [{}, ...series], bands, legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false, dist: 4 }, bind: { dblclick: () => () => { setView(0, T - 1); return null; } } },
      scales: { x: { time: false, range: () => [state.from - 0.5, state.to + 1] }, y: { range } },
      axes: [xAxis(), yAxis()], hooks: { setSelect: [select], ...hooks },
    }, columns, box);
  };
  const upright = (u, hour, colour, dash, width) => {
    const { ctx, bbox } = u, dpr = devicePixelRatio || 1, x = u.valToPos(hour, "x", true);
    ctx.save();
    ctx.strokeStyle = colour;
    ctx.lineWidth = width * dpr;
    ctx.setLineDash(dash.map((n) => n * dpr));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  };
  let now;
  const choose = () => {
    const series = data.series[state.view], k = state.key, wide = series.hours;
    const column = (rows) => [...rows.map((row) => row[k]), rows[rows.length - 1][k]];
    const released = column(series.released);
    now = { series, wide, xs: released.map((_, t) => t * wide), released, truth: column(series.truth), low: released.map((x) => x - series.half), high: released.map((x) => x + series.half) };
  };
  const drawMain = (u) => {
    const { ctx, bbox } = u, dpr = devicePixelRatio || 1, foot = bbox.top + bbox.height;
    const seen = (hour) => hour >= state.from && hour <= state.to + 1;
    if (seen(data.crash)) upright(u, data.crash + 0.5, css("--bad"), [], 3);
    ctx.save();
    ctx.fillStyle = css("--note");
    if (state.view === 0) for (const [first, last, stations] of data.alerts) {
      if (!stations.includes(state.key)) continue;
      const [a, b] = [Math.max(first, state.from), Math.min(last + 1, state.to + 1)].map((t) => u.valToPos(t, "x", true));
      if (b > a) ctx.fillRect(a, foot - 8 * dpr, Math.max(b - a, 6 * dpr), 7 * dpr);
    }
    ctx.restore();
    let free = -Infinity;
    data.notes.forEach(([hour], i) => {
      if (!seen(hour)) return;
      const at = u.valToPos(hour, "x", true), flag = Math.max(at, free), top = bbox.top - 12 * dpr, killed = hour === data.crash;
      free = flag + 22 * dpr;
      if (!killed) upright(u, hour, css("--note"), [4, 4], 1);
      ctx.save();
      ctx.fillStyle = css(killed ? "--bad" : "--note");
      ctx.beginPath();
      ctx.arc(flag, top, 10 * dpr, 0, 7);
      ctx.fill();
      ctx.fillStyle = css("--card");
      ctx.font = `bold ${11 * dpr}px sans-serif`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      ctx.fillText(String(i + 1), flag, top + 0.5 * dpr);
      ctx.restore();
    });
  };
  const mainRange = () => {
    const inside = (values) => values.filter((_, t) => now.xs[t] + now.wide > state.from && now.xs[t] <= state.to);
    const high = Math.max(1, ...inside(now.truth), ...inside(now.high)), low = Math.min(0, ...inside(now.low));
    return [low - (high - low) * 0.06, high + (high - low) * 0.06];
  };
  const tell = (u) => {
    const t = u == null ? null : u.cursor.idx;
    if (t == null) return note($("readout"), "Point at the chart to read it.");
    const i = Math.min(t, now.series.released.length - 1), off = Math.abs(now.released[i] - now.truth[i]);
    note($("readout"), [now.wide === 1 ? data.units[i] : data.units[i * now.wide].replace(/ \S+$/, "")], " · truth ", [show(now.truth[i])], " · released ", [show(now.released[i])],
      ` (${show(now.low[i])} to ${show(now.high[i])}) · off by `, [show(off)]);
  };
  const draw = () => {
    const edge = { stroke: css("--edge"), width: 1, paths: steps, points: { show: false } };
    const line = (stroke, width, more) => ({ stroke, width, points: { show: false }, paths: steps, ...more });
    plot("chart", narrow() ? 300 : 400, [28, 26, 0, 0], mainRange, [now.xs, now.high, now.low, now.released, now.truth],
      [edge, edge, line(css("--release"), 2.5), line(css("--truth"), 1.3)],
      { draw: [drawMain], setCursor: [tell] }, [{ series: [1, 2], fill: css("--band") }]);
    const book = data.ledger, xs = [...Array(T + 1).keys()], last = (values) => [...values, values[values.length - 1]];
    plot("ledger", 190, [14, 26, 0, 0], () => [0, book.epsilon * 1.2],
      [xs, last(book.hourly.map((x, t) => x + book.daily[t])), last(book.daily)],
      [line(css("--hourly"), 1.5, { fill: css("--band") }), line(css("--daily"), 1.5, { fill: css("--daily") })],
      { draw: [(u) => {
        const { ctx, bbox } = u, dpr = devicePixelRatio || 1, y = u.valToPos(book.epsilon, "y", true);
        upright(u, data.crash + 0.5, css("--bad"), [], 3);
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
        ctx.fillText(`promised: epsilon = ${book.promised}`, bbox.left + bbox.width - 4 * dpr, y - 4 * dpr);
        ctx.restore();
      }] }, []);
  };
  const describe = () => {
    const { series } = now, n = series.released.length, mae = series.released.reduce((sum, row, t) => sum + Math.abs(row[state.key] - series.truth[t][state.key]), 0) / n;
    const held = series.released.filter((row, t) => Math.abs(row[state.key] - series.truth[t][state.key]) <= series.half).length;
    note($("chart-sub"), [data.keys[state.key]], `, ${series.view} view: ± ${show(series.half)} with 95 % confidence, off by `, [show(mae)], " on average; the interval held the truth in ", [`${show((100 * held) / n)} %`], ` of ${show(n)} units.`);
    $("chart").setAttribute("aria-label", `True and released counts of ${data.keys[state.key]}, ${series.view}`);
  };

  // Heat maps: one pixel a cell, scaled by the browser.
  const sorted = hourly.truth.flat().sort((a, b) => a - b), hottest = Math.max(1, sorted[Math.floor((sorted.length - 1) * 0.998)]);
  const paint = (canvas, width, height, shade) => {
    const stops = css("--ramp").split(",").map((hex) => [1, 3, 5].map((i) => parseInt(hex.trim().slice(i, i + 2), 16)));
    const image = new ImageData(width, height);
    Object.assign(canvas, { width, height });
    for (let i = 0; i < width * height; i++) {
      const at = Math.min(1, Math.max(0, shade(i % width, Math.floor(i / width)))) * (stops.length - 1), a = Math.min(Math.floor(at), stops.length - 2);
      image.data.set([...stops[a].map((c, j) => Math.round(c + (stops[a + 1][j] - c) * (at - a))), 255], 4 * i);
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
  };
  const rowHeight = Math.max(2, Math.min(12, 420 / d));
  const drawHeat = () => {
    const heat = (value) => Math.sqrt(Math.max(0, value) / hottest);
    paint($("heat-truth"), T, d, (t, r) => heat(hourly.truth[t][order[r]]));
    paint($("heat-release"), T, d, (t, r) => heat(hourly.released[t][order[r]]));
    paint($("ramp"), 256, 1, (t) => t / 255);
    $("ramp-top").textContent = `${show(hottest)} or more taps an hour`;
    markHeat();
  };
  const markHeat = () => {
    for (const canvas of [$("heat-truth"), $("heat-release")]) {
      canvas.style.height = `${rowHeight * d}px`;
      Object.assign(canvas.nextElementSibling.style, { top: `${rowHeight * order.indexOf(state.key) - 2}px`, height: `${rowHeight + 4}px` });
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
    setHour(state.hour);
    markHeat();
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
    for (const chart of Object.values(charts)) chart.setScale("x", { min: state.from - 0.5, max: state.to + 1 });
    for (const button of document.querySelectorAll("[data-zoom]")) {
      const way = button.dataset.zoom;
      button.disabled = way === "in" ? span <= 5 : way === "earlier" ? state.from === 0 : way === "later" ? state.to === T - 1 : span === T - 1;
    }
  };

  for (const k of order) $("station").add(new Option(`${data.keys[k]} · ${show(Math.round(totals[k] / T))} an hour`, k));
  $("station").addEventListener("change", () => setKey(Number($("station").value)));
  data.series.forEach((series, i) => {
    const label = document.createElement("label"), input = document.createElement("input"), text = document.createElement("span");
    Object.assign(input, { type: "radio", name: "view", value: i, checked: i === 0 });
    text.textContent = series.view;
    label.append(input, text);
    input.addEventListener("change", () => { state.view = i; update(); });
    $("views").append(label);
  });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      const { from, to } = state, half = Math.max(1, Math.round((to - from) / 4)), jump = Math.max(1, Math.round((to - from) / 2));
      setView(...{ in: [from + half, to - half], out: [from - 2 * half, to + 2 * half], earlier: [from - jump, to - jump], later: [from + jump, to + jump], all: [0, T - 1] }[button.dataset.zoom]);
    });
  }
  data.notes.forEach(([hour, text, k], i) => {
    const item = document.createElement("li"), button = document.createElement("button");
    for (const [tag, words] of [["b", i + 1], ["time", data.units[hour]], ["span", text]]) {
      const part = document.createElement(tag);
      part.textContent = words;
      if (tag === "b" && hour === data.crash) part.style.background = "var(--bad)";
      button.append(part);
    }
    button.type = "button";
    button.title = "Zoom to this";
    button.addEventListener("click", () => {
      if (k != null) setKey(k);
      setHour(hour);
      setView(hour - 24, hour + 24);
      $("h-chart").scrollIntoView({ block: "center", behavior: "smooth" });
    });
    item.append(button);
    $("notes").append(item);
  });
  $("hour").max = T - 1;
  $("hour").addEventListener("input", () => { play(false); setHour(Number($("hour").value)); });
  $("play").addEventListener("click", () => play(playing === null));
  for (const canvas of [$("heat-truth"), $("heat-release")]) {
    canvas.addEventListener("click", (event) => setKey(cell(event)[1]));
    canvas.addEventListener("pointermove", (event) => {
      const [t, k] = cell(event);
      note($("heat-readout"), [data.keys[k]], ` · ${data.units[t]} · truth `, [show(hourly.truth[t][k])], " · released ", [show(hourly.released[t][k])]);
    });
  }
  note($("heat-readout"), "Point at a cell to read it.");
  drawMap();
  drawHeat();
  setKey(state.key);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); setView(state.from, state.to); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { update(); drawHeat(); });
})();
