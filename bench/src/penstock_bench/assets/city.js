"use strict";
(() => {
  const { $, data, css, narrow, show, say, timeline, pixels, upright, limit, line, edge, toTheEnd, redraw } = Penstock;
  const hourly = data.series[0], T = hourly.released.length;
  const state = { key: data.start.key, view: 0, hour: data.start.hour };
  const order = Truth.stations(hourly.truth);
  const from = narrow() && T > 120 ? Math.max(0, Math.min(T - 120, data.start.hour - 30)) : 0; // a phone begins with less
  const time = timeline({ xs: hourly.starts, zone: data.zone, from, to: narrow() ? Math.min(T, from + 120) : T });
  const hourName = (t) => time.name(hourly.starts[t], hourly.starts[t + 1]);
  const notes = data.notes.map(([hour, text, key]) => ({
    hour, key, text, killed: hour === data.crash && key == null, at: hourly.starts[hour], when: hourName(hour),
  }));

  // The map, in pixels.
  const map = $("map"), paths = [], spots = [], biggest = Math.max(1, ...hourly.truth.flat());
  let scale = 1, place, chosen;
  const made = (tag, attributes, parent) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    parent.append(node);
    return node;
  };
  const radius = (count) => 1.15 * scale * Math.sqrt(Math.max(0, count) / biggest);
  const label = (text, k) => {
    const [x, y] = place(k), wide = 8.2 * data.keys[k].length, left = x - wide > 12 && (x < map.clientWidth / 2 || x + wide + 12 > map.clientWidth);
    text.textContent = data.keys[k];
    for (const [name, value] of Object.entries({ x: x + (left ? -12 : 12), y: y - 9, "text-anchor": left ? "end" : "start" })) text.setAttribute(name, value);
  };
  const drawMap = () => {
    const xs = data.places.map((p) => p[0]), ys = data.places.map((p) => p[1]), room = 1.2;
    const [left, right, top, bottom] = [Math.min(...xs) - room, Math.max(...xs) + room, Math.min(...ys) - room, Math.max(...ys) + room];
    const [width, height] = [map.clientWidth, map.clientHeight];
    scale = Math.min(width / (right - left), height / (bottom - top));
    place = (k) => [width / 2 + scale * (data.places[k][0] - (left + right) / 2), height / 2 + scale * (data.places[k][1] - (top + bottom) / 2)];
    map.replaceChildren();
    paths.length = spots.length = 0;
    for (const stops of data.lines) {
      const path = made("path", { d: "M" + stops.map((k) => place(k).join(" ")).join("L") }, map);
      paths.push([path, stops.some((k) => data.closed.hours.length && data.closed.stations.includes(k))]);
    }
    data.keys.forEach((name, k) => {
      const [cx, cy] = place(k), group = made("g", { "data-key": k }, map);
      spots[k] = { group, disc: made("circle", { class: "disc", cx, cy, r: 0 }, group), ring: made("circle", { class: "ring", cx, cy, r: 0 }, group) };
      made("circle", { class: "dot", cx, cy, r: 2.5 }, group);
    });
    for (const k of data.named) label(made("text", {}, map), k);
    chosen = made("text", { class: "chosen" }, map);
  };
  map.addEventListener("click", (event) => { // the nearest station, as discs may cover each other
    const box = map.getBoundingClientRect(), [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const away = (k) => Math.hypot(place(k)[0] - x, place(k)[1] - y);
    setKey(order.reduce((best, k) => (away(k) < away(best) ? k : best)));
  });
  const setHour = (hour) => {
    state.hour = hour;
    $("hour").value = hour;
    $("hour-name").textContent = hourName(hour);
    spots.forEach((spot, k) => {
      spot.disc.setAttribute("r", radius(hourly.released[hour][k]));
      spot.ring.setAttribute("r", radius(hourly.truth[hour][k]));
      spot.group.classList.toggle("chosen", k === state.key);
    });
    for (const [path, closes] of paths) path.classList.toggle("shut", closes && data.closed.hours.includes(hour));
    label(chosen, state.key);
    const k = state.key, [released, truth] = [hourly.released, hourly.truth].map((rows) => rows[hour].reduce((a, b) => a + b, 0));
    const happened = hour === data.crash ? " · the publisher was killed in this hour" : data.closed.hours.includes(hour) ? " · the dashed line is closed" : "";
    say($("map-readout"), [data.keys[k]], ": released ", [show(hourly.released[hour][k])], ` ± ${show(hourly.half)}, truth ${show(hourly.truth[hour][k])} · all stations: released `, [show(released)], `, truth ${show(truth)}${happened}`);
  };
  let playing = null;
  const play = (on) => {
    clearInterval(playing);
    playing = on ? setInterval(() => setHour((state.hour + 1) % T), 180) : null;
    $("play").textContent = on ? "❚❚ Pause" : "▶ Play";
    $("play").setAttribute("aria-pressed", String(on));
  };

  // The charts.
  let now;
  const choose = () => {
    const series = data.series[state.view], column = (rows) => rows.map((row) => row[state.key]), released = column(series.released);
    now = { series, released, truth: column(series.truth), low: released.map((x) => x - series.half), high: released.map((x) => x + series.half) };
  };
  const drawMain = (u) => {
    const { ctx, box, dpr } = pixels(u), foot = box.top + box.height, { view } = time;
    ctx.save();
    ctx.fillStyle = css("--note");
    if (state.view === 0) for (const [first, last, stations] of data.alerts) {
      if (!stations.includes(state.key)) continue;
      const [a, b] = [Math.max(hourly.starts[first], view.from), Math.min(hourly.starts[last + 1], view.to)].map((at) => u.valToPos(at, "x", true));
      if (b > a) ctx.fillRect(a, foot - 8 * dpr, Math.max(b - a, 6 * dpr), 7 * dpr);
    }
    ctx.restore();
    Truth.flags(u, view, notes);
  };
  const mainRange = () => {
    const { starts } = now.series, seen = (values) => values.filter((_, t) => starts[t + 1] > time.view.from && starts[t] < time.view.to);
    const high = Math.max(1, ...seen(now.truth), ...seen(now.high)), low = Math.min(0, ...seen(now.low)), room = (high - low) * 0.06;
    return [low - room, high + room];
  };
  const tell = (t) => {
    if (t == null) return say($("readout"), "Point at or tap the chart to read a unit.");
    const { starts } = now.series;
    say($("readout"), [time.name(starts[t], starts[t + 1])], " · truth ", [show(now.truth[t])], " · released ", [show(now.released[t])],
      ` (${show(now.low[t])} to ${show(now.high[t])}) · error `, [show(Math.abs(now.released[t] - now.truth[t]))]);
  };
  const draw = () => {
    time.chart($("chart"), {
      height: narrow() ? 300 : 400, padding: [28, 26, 0, 0], starts: now.series.starts, range: mainRange, draw: drawMain, read: tell,
      columns: [now.high, now.low, now.released, now.truth].map(toTheEnd),
      series: [edge(), edge(), line(css("--release"), 2.5), line(css("--truth"), 1.3)], bands: [{ series: [1, 2], fill: css("--band") }],
    });
    const { hourly: byHour, daily, epsilon, promised } = data.ledger, killed = hourly.starts[data.crash];
    const told = (t) => say($("ledger-readout"), ...(t == null ? ["Point at or tap the chart to read a window."]
      : ["Window that ends with ", [hourName(t)], " · ε spent ", [show(byHour[t] + daily[t], 4)], ` of ${promised} (hourly view ${show(byHour[t], 4)}, daily view ${show(daily[t], 4)})`]));
    time.chart($("ledger"), {
      height: 190, padding: [14, 26, 0, 0], range: () => [0, epsilon * 1.2], read: told,
      columns: [byHour.map((x, t) => x + daily[t]), daily].map(toTheEnd),
      series: [line(css("--release"), 1.5, { fill: css("--band") }), line(css("--second"), 1.5, { fill: css("--second") })],
      draw: (u) => {
        if (killed >= time.view.from && killed <= time.view.to) upright(u, killed, css("--bad"), [], 3);
        limit(u, epsilon, `promised: ε = ${promised}`);
      },
    });
    told(null);
    tell(null);
    time.look(time.view.from, time.view.to);
  };
  const describe = () => {
    const { series } = now, n = series.released.length, off = now.released.map((x, t) => Math.abs(x - now.truth[t]));
    const held = off.filter((error) => error <= series.half).length;
    say($("chart-sub"), [data.keys[state.key]], `, ${series.view} view: 95 % interval ± ${show(series.half)}, mean error `, [show(off.reduce((a, b) => a + b, 0) / n)],
      "; the interval contained the truth in ", [`${show((100 * held) / n)} %`], ` of ${show(n)} units.`);
    $("chart").setAttribute("aria-label", `True and released counts of ${data.keys[state.key]}, ${series.view} view`);
  };

  const heat = Truth.heats({ truth: hourly.truth, order, released: () => hourly.released, key: () => state.key, choose: (k) => setKey(k), read: hourName });
  const update = () => {
    choose();
    describe();
    draw();
    setHour(state.hour);
    heat.mark();
  };
  const setKey = (k) => {
    state.key = k;
    $("station").value = String(k);
    update();
  };
  $("station").addEventListener("change", () => setKey(Number($("station").value)));
  Truth.pills($("views"), "view", data.series.map((series) => series.view), (i) => { state.view = i; update(); })[0].checked = true;
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  Truth.listNotes(notes, ({ hour, key }) => {
    if (key != null) setKey(key);
    setHour(hour);
    time.look(hourly.starts[hour] - 86400, hourly.starts[hour] + 86400);
  });
  $("hour").max = T - 1;
  $("hour").addEventListener("input", () => { play(false); setHour(Number($("hour").value)); });
  $("play").addEventListener("click", () => play(playing === null));
  const drawAll = () => { drawMap(); heat.draw(); update(); };
  redraw(drawAll);
  $("station").value = String(state.key);
  drawAll();
})();
