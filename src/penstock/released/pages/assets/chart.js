"use strict";
// Charts over time for all pages. Every chart of a timeline shows the same stretch of time.
// Times are seconds since 1970 and shown in the calendar's zone; without a calendar, `zone` is null
// and times are unit numbers. A pointer, a tap or the arrow keys choose the unit that is read out.
const Penstock = (() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const narrow = () => innerWidth < 760;
  const show = (x, digits = 1) => (x == null ? "unknown" : x.toLocaleString("en", { maximumFractionDigits: digits }).replace("-", "−"));
  const say = (parent, ...parts) => parent.replaceChildren(...parts.map((part) => { // [text] is bold
    if (!Array.isArray(part)) return document.createTextNode(part);
    const node = document.createElement("b");
    [node.textContent, node.className] = [part[0], part[1] ?? ""];
    return node;
  }));

  // The name of a unit: its date, with the time of day if the unit is shorter than a day.
  const clock = (zone) => {
    if (!zone) return (start) => `unit ${show(start)}`;
    const written = (parts) => new Intl.DateTimeFormat("en-GB", { timeZone: zone, ...parts });
    const day = written({ weekday: "short", day: "numeric", month: "short", year: "numeric" });
    const time = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    const minutes = written(time), seconds = written({ ...time, second: "2-digit" });
    return (start, end) => {
      const at = new Date(start * 1e3), length = end - start, date = day.format(at).replace(",", "");
      return length >= 72000 ? date : `${date}, ${(length < 60 ? seconds : minutes).format(at)}`;
    };
  };

  const font = (weight = "") => `${weight} 12px ${getComputedStyle(document.body).fontFamily}`.trim();
  // Ticks: [shortest distance in seconds, text, text at a new year, month, day, hour, minute, second, append].
  const day = "\n{D} {MMM}", year = "\n{YYYY}";
  const dates = [
    [31536000, "{YYYY}", null, null, null, null, null, null, 1],
    [2419200, "{MMM}", year, null, null, null, null, null, 1],
    [86400, "{D} {MMM}", year, null, null, null, null, null, 1],
    [60, "{HH}:{mm}", `${day} {YYYY}`, null, day, null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", `${day} {YYYY}`, null, day, null, null, null, 1],
  ];
  const named = (label) => (label ? { label, labelSize: 22, labelGap: 2, labelFont: font() } : {});
  const axis = (more) => ({
    stroke: css("--muted"), font: font(), grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false }, ...more,
  });

  // `xs` holds the start of every unit and, last, the end of the last one. `moved` is told of every zoom.
  const timeline = ({ xs, zone, from = 0, to = xs.length - 1, moved }) => {
    const first = xs[0], end = xs[xs.length - 1], least = Math.min(6 * (end - first) / (xs.length - 1), end - first);
    const view = { from: xs[from], to: xs[to] }, charts = new Map(), name = clock(zone);
    const unitAt = (x, starts = xs) => {
      let low = 0, high = starts.length - 2;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (starts[middle] <= x) low = middle; else high = middle - 1;
      }
      return low;
    };
    const look = (from, to) => {
      const span = Math.min(end - first, Math.max(Math.abs(to - from), least));
      view.from = Math.max(first, Math.min(end - span, Math.min(from, to)));
      view.to = view.from + span;
      for (const chart of charts.values()) chart.setScale("x", { min: view.from, max: view.to });
      for (const button of document.querySelectorAll("[data-zoom]")) {
        const way = button.dataset.zoom;
        button.disabled = way === "in" ? span <= least : way === "earlier" ? view.from <= first
          : way === "later" ? view.to >= end : span >= end - first;
      }
      moved?.(view, span >= end - first);
    };
    const ways = {
      in: (span) => [view.from + span / 4, view.to - span / 4], out: (span) => [view.from - span / 2, view.to + span / 2],
      earlier: (span) => [view.from - span / 2, view.to - span / 2], later: (span) => [view.from + span / 2, view.to + span / 2],
      all: () => [first, end],
    };
    for (const button of document.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", () => look(...ways[button.dataset.zoom](view.to - view.from)));
    }
    const select = (u) => {
      if (u.select.width < 4) return;
      const [left, right] = [u.select.left, u.select.left + u.select.width].map((x) => u.posToVal(x, "x"));
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      look(left, right);
    };

    // `starts` are the chart's own units; `read(unit)` is called with null when nothing is chosen.
    const chart = (box, { height, padding = [10, 26, 0, 0], starts = xs, columns, series, bands = [], range, draw, read, names = {} }) => {
      box.style.minHeight = `${height}px`; // so that nothing jumps while the chart is drawn again
      charts.get(box)?.destroy();
      const chosen = (u) => (u.cursor.left >= 0 ? unitAt(u.posToVal(u.cursor.left, "x"), starts) : null);
      const unit = { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 1e4, 1e5, 1e6], values: (_, at) => at.map((x) => (Number.isInteger(x) ? show(x) : "")) };
      const u = new uPlot({
        width: box.clientWidth, height, padding, bands, legend: { show: false }, series: [{}, ...series],
        tzDate: zone ? (seconds) => uPlot.tzDate(new Date(seconds * 1e3), zone) : undefined,
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false, dist: 4 }, bind: { dblclick: () => () => { look(first, end); return null; } } },
        scales: { x: { time: zone != null, range: () => [view.from, view.to] }, y: { range } },
        axes: [axis({ space: zone ? 64 : 50, gap: 8, size: zone ? 46 : 34, ...(zone ? { values: dates } : unit), ...named(names.x) }), axis({ size: 62, space: 34, ...named(names.y) })],
        hooks: { setSelect: [select], draw: draw ? [draw] : [], setCursor: read ? [(it) => read(chosen(it))] : [] },
      }, [starts, ...columns], box);
      const point = (event) => {
        if (event.pointerType === "mouse") return;
        const edge = u.over.getBoundingClientRect();
        u.setCursor({ left: event.clientX - edge.left, top: event.clientY - edge.top });
      };
      u.over.addEventListener("pointerdown", point);
      u.over.addEventListener("pointermove", point);
      box.tabIndex = 0;
      box.onkeydown = (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], at = chosen(u);
        if (!step || !read) return;
        event.preventDefault();
        const next = at == null ? unitAt(view.from, starts) : Math.max(0, Math.min(starts.length - 2, at + step));
        u.setCursor({ left: u.valToPos((starts[next] + starts[next + 1]) / 2, "x"), top: 0 });
      };
      charts.set(box, u);
      return u;
    };
    return { view, name, unitAt, look, chart, xs };
  };

  // Things to draw on a chart's canvas.
  const pixels = (u) => ({ ctx: u.ctx, box: u.bbox, dpr: devicePixelRatio || 1 });
  const upright = (u, at, colour, dash = [], width = 1) => {
    const { ctx, box, dpr } = pixels(u), x = u.valToPos(at, "x", true);
    ctx.save();
    ctx.strokeStyle = colour;
    ctx.lineWidth = width * dpr;
    ctx.setLineDash(dash.map((n) => n * dpr));
    ctx.beginPath();
    ctx.moveTo(x, box.top);
    ctx.lineTo(x, box.top + box.height);
    ctx.stroke();
    ctx.restore();
  };
  const limit = (u, at, text = "") => {
    const { ctx, box, dpr } = pixels(u), y = u.valToPos(at, "y", true);
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = css("--limit");
    ctx.lineWidth = 2 * dpr;
    ctx.setLineDash([8 * dpr, 4 * dpr]);
    ctx.beginPath();
    ctx.moveTo(box.left, y);
    ctx.lineTo(box.left + box.width, y);
    ctx.stroke();
    ctx.font = `bold ${12 * dpr}px sans-serif`;
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    ctx.fillText(text, box.left + box.width - 4 * dpr, y - 4 * dpr);
    ctx.restore();
  };
  const dot = (u, x, y, colour, radius = 4, text = "") => {
    const { ctx, dpr } = pixels(u);
    ctx.save();
    ctx.fillStyle = colour;
    ctx.beginPath();
    ctx.arc(x, y, radius * dpr, 0, 7);
    ctx.fill();
    ctx.fillStyle = css("--card");
    ctx.font = `bold ${12 * dpr}px sans-serif`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText(text, x, y + 0.5 * dpr);
    ctx.restore();
  };
  const steps = uPlot.paths.stepped({ align: 1 });
  const line = (stroke, width, more) => ({ stroke, width, paths: steps, points: { show: false }, ...more });
  const edge = () => line(css("--edge"), 1);
  const toTheEnd = (values) => [...values, values[values.length - 1]]; // a step lasts until its unit ends

  // Draw again when the width or the colour scheme changes.
  const redraw = (draw) => {
    let width = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  };
  return { $, data, css, narrow, show, say, axis, clock, timeline, pixels, upright, limit, dot, line, edge, toTheEnd, redraw };
})();
