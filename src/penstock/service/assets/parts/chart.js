// One chart over time for one or several series. uPlot gives axes, scales, pointer and zoom; the
// lines are drawn by drawing.js, which knows bands, repeated releases and marks.
import { css, el, newId, svg } from "./dom.js";
import { placeAt, pointOf } from "./answers.js";
import {
  colourOf,
  drawLimit,
  drawMarks,
  drawSeries,
  extent,
  SHAPE_PATHS,
  SHAPES,
} from "./drawing.js";
import { tickLabels } from "./ticks.js";

const MARKS_ROOM = 24;
const MAX_NAMED = 5; // marks that are named without being asked for

/**
 * @typedef {object} ChartOptions
 * @property {import("./answers.js").Series[]} series
 * @property {{time: number, end?: number, text: string, kind: "event" | "alert"}[]} [marks]
 * @property {string} [measure] what the numbers are, beside the axis
 * @property {string} [confidence] of the intervals, such as "0.95"
 * @property {string} label name of the chart for screen readers
 * @property {string | null} [zone] time zone; null if times are units
 * @property {Function} text texts of the language
 * @property {object} format of the language and zone
 * @property {boolean} [exact] the numbers have no noise, so nothing is said about intervals
 * @property {number} [height]
 * @property {{value: number, name: string}[]} [limits] dashed lines across
 * @property {boolean} [small] one of many: no readout, no legend, no list of marks
 * @property {boolean} [zoom] whether the reader can look at a part
 * @property {[number, number]} [range] of the y axis, if it is shared with other charts
 * @property {(from: number, to: number) => void} [onRange] the reader has chosen a part of the time
 * @property {(time: number | null) => void} [onRead] the reader points at a time
 */

/**
 * Draw series over time into an element.
 * @param {Element} element
 * @param {ChartOptions} given
 */
export function lineChart(element, given) {
  let options = { height: 340, marks: [], limits: [], zoom: true, ...given };
  const hint = el("p", { class: "unseen", id: newId("keys"), text: options.text("chart.keys") });
  // Read out while the reader moves through the chart, not whenever a new unit arrives.
  const readout = el("p", { class: "readout", "aria-live": "off" });
  const plot = el("div", {
    class: "plot",
    role: "img",
    tabindex: "0",
    "aria-label": options.label,
    "aria-describedby": hint.id,
  });
  const legend = el("ul", { class: "legend" }),
    marks = el("ol", { class: "marks" }),
    earlier = el("ol", { class: "marks" }),
    more = el("summary"),
    behind = el("details", { class: "earlier", hidden: true }, more, earlier);
  const tools = el("div", {
    class: "zoom",
    role: "group",
    "aria-label": options.text("chart.zoom"),
  });
  const root = el(
    "div",
    { class: options.small ? "chart small" : "chart" },
    !options.small && el("div", { class: "over" }, readout, options.zoom && tools),
    plot,
    !options.small && legend,
    !options.small && marks,
    !options.small && behind,
    hint,
  );
  element.append(root);

  let whole = [0, 1],
    view = null,
    chart = null,
    chosen = null;
  const shown = () => view ?? whole;

  const span = () => {
    const first = Math.min(...options.series.map(({ times }) => times[0] ?? Infinity));
    const last = Math.max(...options.series.map(({ ends }) => ends.at(-1) ?? -Infinity));
    return first < last ? [first, last] : [0, 1];
  };

  /** Events and alerts of the time that was loaded; others are not named either. */
  const marked = () =>
    numbered(
      options.marks.filter((one) => (one.end ?? one.time) >= whole[0] && one.time <= whole[1]),
    );

  const heights = () => {
    if (options.range) return options.range;
    const [from, to] = shown(),
      limits = options.limits.map(({ value }) => value);
    const [least, most] = extent(options.series, from, to);
    const low = Math.min(0, least, ...limits),
      high = Math.max(low + 1, most, ...limits);
    if (!Number.isFinite(low + high)) return [0, 1];
    const room = (high - low) * 0.06;
    return [low < 0 ? low - room : 0, high + room];
  };

  const draw = (u) => {
    const [from, to] = shown(),
      several = options.series.length > 1;
    for (const { value, name } of options.limits) drawLimit(u, value, name);
    options.series.forEach((series, place) =>
      drawSeries(u, series, {
        colour: colourOf(series.place ?? place),
        shape: several ? SHAPES[(series.place ?? place) % SHAPES.length] : null,
        from,
        to,
      }),
    );
    drawMarks(u, marked(), from, to);
  };

  const read = (time) => {
    chosen = time;
    options.onRead?.(time);
    if (options.small) return;
    readout.replaceChildren(...readings(options, time));
  };

  const build = () => {
    chart?.destroy();
    const { zone, small } = options,
      narrow = plot.clientWidth < 560;
    const above = marked().length ? MARKS_ROOM : 8;
    const font = `12px ${css("--font")}`,
      axis = {
        stroke: css("--muted"),
        font,
        grid: { stroke: css("--grid"), width: 1 },
        ticks: { show: false },
      };
    chart = new uPlot(
      {
        width: Math.max(plot.clientWidth, 80),
        height: options.height,
        legend: { show: false },
        padding: [small ? 8 : above, 18, 0, 0],
        series: [{}, { paths: () => null, points: { show: false } }],
        tzDate: zone ? (seconds) => uPlot.tzDate(new Date(seconds * 1e3), zone) : undefined,
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: options.zoom, y: false, setScale: false, dist: 5 },
          bind: {
            dblclick: () => () => {
              look(null);
              return null;
            },
          },
        },
        scales: { x: { time: zone != null, range: () => shown() }, y: { range: heights } },
        axes: [
          {
            ...axis,
            space: small ? 54 : 66,
            gap: 8,
            size: zone ? 44 : 30,
            values: tickLabels(options.format, zone),
          },
          {
            ...axis,
            size: small || narrow ? 46 : 58,
            space: small ? 28 : 36,
            gap: 6,
            values: (_, splits) => splits.map((value) => options.format.short(value)),
            ...(options.measure && !narrow && !small
              ? { label: options.measure, labelSize: 20, labelGap: 0, labelFont: font }
              : {}),
          },
        ],
        hooks: { draw: [draw], setSelect: [select], setCursor: [point] },
      },
      [shown(), [0, 1]],
      plot,
    );
    chart.over.addEventListener("pointerdown", touch);
    chart.over.addEventListener("pointermove", touch);
  };

  const touch = (event) => {
    // uPlot follows the mouse; a finger is followed here
    if (event.pointerType === "mouse") return;
    const edge = chart.over.getBoundingClientRect();
    chart.setCursor({ left: event.clientX - edge.left, top: event.clientY - edge.top });
  };
  const point = (u) => read(u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null);
  const select = (u) => {
    if (u.select.width < 5) return;
    const ends = [u.select.left, u.select.left + u.select.width].map((x) => u.posToVal(x, "x"));
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    look(ends);
  };

  /** Show the time between two ends, or all of it for null. */
  const look = (ends) => {
    if (ends) {
      const [first, last] = whole,
        unit = shortest(options.series);
      const length = Math.min(last - first, Math.max(ends[1] - ends[0], 4 * unit));
      const from = Math.max(first, Math.min(last - length, ends[0]));
      view = length >= (last - first) * 0.999 ? null : [from, from + length];
    } else view = null;
    refresh();
    options.onRange?.(...shown());
  };

  const refresh = () => {
    if (!chart) return;
    chart.setData([shown(), [0, 1]]);
    const [from, to] = shown(),
      [first, last] = whole;
    for (const button of tools.children) {
      const way = button.dataset.way;
      button.disabled =
        way === "earlier"
          ? from <= first
          : way === "later"
            ? to >= last
            : way === "in"
              ? to - from <= 4 * shortest(options.series)
              : view == null;
    }
  };

  const ways = {
    earlier: ([from, to]) => [from - (to - from) / 2, to - (to - from) / 2],
    in: ([from, to]) => [from + (to - from) / 4, to - (to - from) / 4],
    out: ([from, to]) => [from - (to - from) / 2, to + (to - from) / 2],
    later: ([from, to]) => [from + (to - from) / 2, to + (to - from) / 2],
    all: () => null,
  };
  const signs = { earlier: "←", in: "+", out: "−", later: "→", all: options.text("chart.all") };
  tools.append(
    ...Object.entries(ways).map(([way, ends]) =>
      el("button", {
        type: "button",
        data: { way },
        text: signs[way],
        "aria-label": options.text(`chart.${way}`),
        title: options.text(`chart.${way}`),
        on: { click: () => look(ends(shown())) },
      }),
    ),
  );

  plot.addEventListener("focus", () => readout.setAttribute("aria-live", "polite"));
  plot.addEventListener("blur", () => readout.setAttribute("aria-live", "off"));
  plot.addEventListener("keydown", (event) => {
    const [series] = options.series;
    if (!series?.times.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -24, PageDown: 24 },
      [from, to] = shown();
    const at = chosen == null ? null : placeAt(series, chosen);
    let next = null;
    if (event.key in steps) {
      next =
        at == null
          ? placeAt(series, steps[event.key] < 0 ? to - 1e-6 : from)
          : at + steps[event.key];
    } else if (event.key === "Home") next = placeAt(series, from);
    else if (event.key === "End") next = placeAt(series, to - 1e-6);
    else if (event.key === "+" && options.zoom) look(ways.in(shown()));
    else if (event.key === "-" && options.zoom) look(ways.out(shown()));
    else if (event.key === "Escape") chart.setCursor({ left: -10, top: -10 });
    else return;
    event.preventDefault();
    if (next == null) return;
    next = Math.max(0, Math.min(series.times.length - 1, next));
    const time = (series.times[next] + series.ends[next]) / 2;
    if (time < shown()[0] || time > shown()[1]) {
      const half = (shown()[1] - shown()[0]) / 2;
      look([time - half, time + half]);
    }
    chart.setCursor({ left: chart.valToPos(time, "x"), top: 0 });
  });

  /** The newest marks are named openly, the others behind one line. */
  const nameMarks = (all) => {
    const items = all.map((mark) => markItem(mark, options)),
      hidden = items.slice(0, -MAX_NAMED);
    marks.replaceChildren(...items.slice(-MAX_NAMED));
    marks.hidden = !items.length;
    earlier.replaceChildren(...hidden);
    behind.hidden = !hidden.length;
    if (hidden.length) more.textContent = options.text("chart.marks", { count: hidden.length });
  };

  const update = (changes) => {
    const before = options,
      hadMarks = marked().length > 0,
      atEnd = view != null && view[1] >= whole[1];
    options = { ...options, ...changes };
    whole = span();
    if (atEnd) view = [whole[1] - (view[1] - view[0]), whole[1]]; // go on with the newest unit
    if (view && (view[1] <= whole[0] || view[0] >= whole[1])) view = null;
    plot.setAttribute("aria-label", options.label);
    if (!options.small) {
      legend.replaceChildren(...legendOf({ ...options, marks: marked() }));
      legend.hidden = !legend.children.length;
      nameMarks(marked());
    }
    const rebuilt =
      !chart ||
      options.measure !== before.measure ||
      options.height !== before.height ||
      Boolean(marked().length) !== hadMarks ||
      options.format !== before.format;
    if (rebuilt) build();
    refresh();
    read(chosen);
  };

  const resized = new ResizeObserver(() => {
    if (chart && plot.clientWidth && plot.clientWidth !== chart.width) {
      const narrow = (width) => width < 560;
      if (narrow(chart.width) !== narrow(plot.clientWidth)) build();
      else chart.setSize({ width: plot.clientWidth, height: options.height });
      refresh();
    }
  });
  const themed = () => {
    build();
    refresh();
  };
  document.addEventListener("theme", themed);
  // Nothing below jumps while the chart is drawn again.
  plot.style.minHeight = `${options.height}px`;
  update({});
  resized.observe(plot);
  return {
    update,
    look,
    range: shown,
    root,
    destroy: () => {
      resized.disconnect();
      document.removeEventListener("theme", themed);
      chart?.destroy();
      root.remove();
    },
  };
}

const numbered = (marks) =>
  marks
    .toSorted((one, other) => one.time - other.time)
    .map((mark, at) => ({ ...mark, number: at + 1 }));

const shortest = (series) =>
  Math.min(
    ...series.map(({ times, ends }) => (times.length ? ends.at(-1) - times.at(-1) : Infinity)),
  );

function readings({ series, text, format, zone, confidence, exact }, time) {
  const full = series.filter(({ times }) => times.length);
  if (!full.length) return [];
  const at = time ?? full[0].times.at(-1);
  const points = full.map((one) =>
    pointOf(one, time == null ? one.times.length - 1 : placeAt(one, at)),
  );
  const [{ time: begins, end, unit }] = points;
  const parts = [
    el("b", {
      text: zone ? format.unit(begins, end) : text("chart.unit", { unit: format.number(unit) }),
    }),
  ];
  for (const point of points) {
    const known = point.low != null && point.high != null;
    const words = exact
      ? ""
      : known && confidence
        ? text("chart.interval", { low: format.number(point.low), high: format.number(point.high) })
        : text("chart.no_interval");
    parts.push(
      el(
        "span",
        { class: "reading" },
        ...(full.length > 1 ? [`${point.name} `] : []),
        el("b", { text: format.number(point.estimate) }),
        ` ${words}`,
        point.repeated ? ` · ${text("chart.repeated")}` : "",
        point.raised ? ` · ${text("chart.raised")}` : "",
      ),
    );
  }
  return parts.flatMap((part, place) => (place ? [" ", part] : [part]));
}

function legendOf({ series, text, format, confidence, marks, limits, exact }) {
  const some = (test) =>
    series.some((one) => one.estimate.some((value, at) => value != null && test(one, at)));
  const key = (kind) => el("span", { class: `key ${kind}`, "aria-hidden": "true" });
  const items =
    series.length > 1
      ? series.map((one, place) => [shapeKey(one.place ?? place), one.name])
      : [[key("line"), exact ? series[0].name : text("legend.released")]];
  if (confidence && some((one, at) => one.low[at] != null)) {
    items.push([key("band"), text("legend.interval", { share: format.percent(confidence) })]);
  }
  if (some((one, at) => one.repeated?.[at])) items.push([key("repeated"), text("legend.repeated")]);
  if (some((one, at) => one.raised?.[at])) items.push([key("raised"), text("legend.raised")]);
  if (marks.some(({ kind }) => kind === "event")) items.push([key("sign"), text("legend.event")]);
  if (marks.some(({ kind }) => kind === "alert"))
    items.push([key("sign alert"), text("legend.alert")]);
  if (limits.length) items.push([key("limit"), limits.map(({ name }) => name).join(", ")]);
  return items.map(([sign, name]) => el("li", {}, sign, name));
}

/** The sign of a series, with its line, for legends. */
export function shapeKey(place) {
  const number = (place % SHAPES.length) + 1,
    shape = SHAPES[place % SHAPES.length];
  return svg(
    "svg",
    {
      class: `shape c${number}${shape === "ring" ? " ring" : ""}`,
      viewBox: "-14 -7 28 14",
      "aria-hidden": "true",
    },
    svg("path", { class: "stroke", d: "M-14 0H14" }),
    svg("path", { class: "fill", d: SHAPE_PATHS[shape] }),
  );
}

function markItem({ number, time, text: words, kind }, { series, text, format, zone }) {
  const at = shortest(series) < 60 ? format.unit(time, time + 1) : format.moment(time);
  return el(
    "li",
    {},
    el("span", {
      class: kind === "alert" ? "sign alert" : "sign",
      text: String(number),
      "aria-hidden": "true",
    }),
    el(
      "span",
      {},
      el("b", { text: words }),
      ` · ${zone ? at : text("chart.unit", { unit: format.number(time) })}`,
    ),
  );
}
