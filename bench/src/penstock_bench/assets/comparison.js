"use strict";
(() => {
  const { $, data, css, narrow, show, say, timeline, pixels, limit, dot, line, edge, toTheEnd, redraw } = Penstock;
  const T = data.starts.length - 1, d = data.keys.length, { starts } = data;

  // Rows as comparison_page.py writes them: "=" repeats the row before, a single number stands for all keys.
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
  const order = Truth.stations(data.truth);
  const state = { key: order[0], track: 0 };
  const precise = (x) => (x == null ? "unknown" : String(Number(x.toPrecision(4))));
  const remember = (view, all) => { // so that a link carries the choice
    const stretch = all ? {} : { from: time.unitAt(view.from), to: time.unitAt(view.to - 1) };
    try {
      history.replaceState(null, "", `#${new URLSearchParams({ station: data.keys[state.key], mechanism: now.track.mechanism, ...stretch })}`);
    } catch { /* a page that may not name its place still works */ }
  };
  const time = timeline({ xs: starts, zone: data.zone, to: Math.min(T, narrow() ? 120 : T), moved: remember }); // a phone begins with less
  const unitName = (t) => time.name(starts[t], starts[t + 1]);
  const middle = (t) => (starts[t] + starts[t + 1]) / 2;
  const notes = data.notes.map(([unit, text]) => ({ unit, text, at: starts[unit], when: unitName(unit) }));

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
  const shown = () => [time.unitAt(time.view.from), time.unitAt(time.view.to)];
  const inView = (values) => { const [from, to] = shown(); return values.slice(from, to + 1).filter((x) => x != null); };
  const most = (values, otherwise) => inView(values).reduce((a, b) => Math.max(a, b), otherwise);
  const least = (values, otherwise) => inView(values).reduce((a, b) => Math.min(a, b), otherwise);

  // A very wide interval may leave the picture; the lines may not.
  const mainRange = () => {
    const top = Math.max(most(now.truth, 1), most(now.released, 1)), bottom = Math.min(0, least(now.released, 0));
    const high = Math.max(top, Math.min(most(now.high, top), 1.5 * top)), low = Math.min(bottom, Math.max(least(now.low, bottom), -0.3 * high));
    const room = (high - low) * 0.06;
    return [low - 1.6 * room, high + room];
  };
  const drawMain = (u) => {
    const { ctx, box, dpr } = pixels(u), [from, to] = shown(), foot = box.top + box.height, ink = css("--release");
    const x = (t) => u.valToPos(middle(t), "x", true), per = box.width / Math.max(1, to - from + 1), wide = Math.max(dpr, Math.min(per * 0.6, 8 * dpr));
    const roomy = per >= 9 * dpr, someDots = roomy || inView(now.fresh).filter(Boolean).length * 9 * dpr < box.width;
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, box.top, box.width, box.height);
    ctx.clip();
    for (let t = from; t <= to; t++) { // the strip: a tick for each fresh publication, a hairline for a repeated one
      ctx.fillStyle = ink;
      if (now.fresh[t]) ctx.fillRect(x(t) - wide / 2, foot - 9 * dpr, wide, 8 * dpr);
      else ctx.fillRect(x(t) - per / 2, foot - 2 * dpr, per, dpr);
      if (now.released[t] == null || !(now.fresh[t] ? someDots : roomy)) continue;
      const y = u.valToPos(now.released[t], "y", true);
      dot(u, x(t), y, now.fresh[t] ? css("--card") : ink, 5);
      dot(u, x(t), y, now.fresh[t] ? ink : css("--card"), 3.5);
    }
    ctx.restore();
    Truth.flags(u, time.view, notes);
  };
  const tell = (t) => {
    if (t == null) return say($("readout"), "Point at or tap a chart to read a unit.");
    const error = now.released[t] == null ? null : Math.abs(now.released[t] - now.truth[t]);
    say($("readout"), [unitName(t)], " · truth ", [show(now.truth[t])], " · released ", [show(now.released[t])],
      now.low[t] == null || now.high[t] == null ? ", interval unknown" : ` (${show(now.low[t])} to ${show(now.high[t])})`,
      now.fresh[t] ? ", fresh" : ", repeated", " · error ", [show(error)], " · ε spent ", [precise(now.track.spent[t])]);
  };
  const draw = () => {
    const { track } = now, ceiling = Math.max(data.epsilon, track.worst ?? 0);
    time.chart($("chart"), {
      height: narrow() ? 300 : 400, padding: [28, 26, 0, 0], range: mainRange, draw: drawMain, read: tell,
      columns: [now.high, now.low, now.released, now.truth].map(toTheEnd),
      series: [edge(), edge(), line(css("--release"), 2.5), line(css("--truth"), 1.4)], bands: [{ series: [1, 2], fill: css("--band") }],
    });
    time.chart($("window"), {
      height: 190, range: () => [0, ceiling * 1.2], columns: [toTheEnd(track.windowSpent)], read: tell,
      series: [line(css("--release"), 2, { fill: css("--band") })], draw: (u) => limit(u, data.epsilon, `promised: ε = ${data.promised}`),
    });
    time.chart($("spent"), {
      height: 170, range: () => [0, (most(track.spent, 0) || data.epsilon) * 1.12], columns: [toTheEnd(track.spent)], read: tell,
      series: [line(css("--release"), 1, { fill: css("--band") })],
    });
    tell(null);
    time.look(time.view.from, time.view.to);
  };
  const describe = () => {
    const xs = now.truth.keys(), known = [...xs].filter((t) => now.low[t] != null && now.high[t] != null), inside = known.filter((t) => now.low[t] <= now.truth[t] && now.truth[t] <= now.high[t]);
    const fresh = now.fresh.filter(Boolean).length, off = now.released.map((x, t) => (x == null ? null : Math.abs(x - now.truth[t]))).filter((x) => x != null);
    say($("chart-sub"), [data.keys[state.key]], ` under ${now.track.title}: freshly published in `, [`${show(fresh)} of ${show(T)}`], " units, mean error ", [show(off.reduce((a, b) => a + b, 0) / (off.length || 1))],
      ...(known.length ? ["; the interval contained the truth in ", [`${show((100 * inside.length) / known.length)} %`], " of units."] : ["."]));
    const { worst, kept } = now.track;
    say($("budget-sub"), `${now.track.title}: highest spend in any ${data.window} consecutive units: ε ${precise(worst)} (limit: ${data.promised}). `,
      kept ? ["✓ The promise was kept.", "good"] : ["✗ The promise was broken.", "bad"]);
    $("chart").setAttribute("aria-label", `True and released counts of ${data.keys[state.key]} under ${now.track.title}`);
    $("window").setAttribute("aria-label", `Epsilon of every window under ${now.track.title}; highest ${precise(worst)}, limit ${data.promised}`);
    $("spent").setAttribute("aria-label", `Epsilon spent in each unit under ${now.track.title}`);
    $("heat-title").textContent = `Released by ${now.track.title}`;
    for (const row of $("errors").tBodies[0].rows) row.classList.toggle("chosen", row.dataset.mechanism === now.track.mechanism);
  };

  const heat = Truth.heats({ truth: data.truth, order, released: () => now.track.released, key: () => state.key, choose: (k) => setKey(k), read: unitName });
  const update = () => {
    choose();
    describe();
    draw();
    heat.draw();
  };
  const setKey = (k) => {
    state.key = k;
    $("station").value = String(k);
    update();
  };
  $("station").addEventListener("change", () => setKey(Number($("station").value)));
  const pills = Truth.pills($("mechanisms"), "mechanism", data.tracks.map((track) => track.mechanism), (i) => { state.track = i; update(); });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  Truth.listNotes(notes, ({ unit }) => time.look(starts[Math.max(0, unit - 24)], starts[Math.min(T, unit + 24)]));
  if (!notes.length) $("notes").remove();

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
  pills[state.track].checked = true;
  redraw(update);
  setKey(state.key);
  const [start, stop] = [Number(wanted.get("from")), Number(wanted.get("to"))];
  if (wanted.has("from") && 0 <= start && start < stop && stop < T) time.look(starts[start], starts[stop + 1]);
})();
