// Keys × time as colours: where and when it is busy, at one glance.
import { append, pointOf, seriesOf } from "../parts/answers.js";
import { colourScale, scaleLegend } from "../parts/colour_scale.js";
import { pills, toggle } from "../parts/controls.js";
import { el } from "../parts/dom.js";
import { extent } from "../parts/drawing.js";
import { figure } from "../parts/figure.js";
import { heatCanvas } from "../parts/heat_canvas.js";
import { largestKeys, numbersCall } from "../parts/questions.js";
import { rangesOf } from "../parts/ranges.js";
import { empty, failure, loading } from "../parts/states.js";
import { sureness } from "../parts/sure.js";
import { timeChoice, windowControl } from "../parts/time_controls.js";
import { writeHash } from "../router.js";
import { measureOf } from "./time.js";

const MAX_NUMBERS = 30_000; // of one request: a third of what the API allows
const ROWS = [20, 40, 100];

export async function show(element, context) {
  const { api, stream, params, text, format, live } = context;
  if (!stream.newest) {
    empty(element, text("state.empty"), text("state.empty_words"));
    return () => {};
  }
  const counts = ROWS.filter((count) => count < stream.keys),
    most = Math.min(stream.keys, ROWS.at(-1));
  if (!counts.includes(most)) counts.push(most);
  let choice = timeChoice(stream, params),
    count = Number(params.get("rows"));
  if (!counts.includes(count)) count = counts[0];
  const ranges = rangesOf(stream).filter(
    ([, units]) => (units ?? stream.units) * counts[0] <= MAX_NUMBERS,
  );
  if (!ranges.length) ranges.push(["units100", 100]);
  let range = ranges.some(([name]) => name === choice.range) ? choice.range : ranges[0][0];
  let order = params.get("order") === "name" ? "name" : "size",
    doubt = params.has("doubt"),
    root = params.has("root");
  let heat = null,
    series = [],
    answer = null,
    call = "",
    turn = 0,
    stopped = new AbortController();

  const keep = () =>
    context.keep({
      range,
      rows: count,
      order: order === "name" ? order : null,
      doubt,
      root,
      window: choice.window > 1 ? choice.window : null,
    });
  const change = (changes) => {
    ({
      range = range,
      count = count,
      order = order,
      doubt = doubt,
      root = root,
      ...changes
    } = changes);
    choice = { ...choice, ...changes };
    keep();
    load();
  };
  const redraw = (changes) => {
    ({ doubt = doubt, root = root } = changes);
    keep();
    draw();
  };
  element.append(
    el(
      "form",
      { class: "controls", on: { submit: (event) => event.preventDefault() } },
      pills({
        label: text("range.label"),
        value: range,
        options: ranges.map(([name]) => [name, text(`range.${name}`)]),
        change: (value) => change({ range: value }),
      }),
      windowControl(stream, choice, context, change),
      counts.length > 1 &&
        pills({
          label: text("heat.rows"),
          value: String(count),
          options: counts.map((one) => [String(one), format.number(one)]),
          change: (value) => change({ count: Number(value) }),
        }),
      pills({
        label: text("heat.order"),
        value: order,
        options: [
          ["size", text("heat.by_size")],
          ["name", text("heat.by_name")],
        ],
        change: (value) => change({ order: value }),
      }),
      el(
        "div",
        { class: "group switches" },
        toggle({
          label: text("heat.root"),
          hint: text("heat.root_hint"),
          checked: root,
          change: (on) => redraw({ root: on }),
        }),
        toggle({
          label: text("heat.doubt"),
          hint: text("heat.doubt_hint"),
          checked: doubt,
          change: (on) => redraw({ doubt: on }),
        }),
      ),
    ),
  );
  const frame = figure(element, { text, title: text("heat.title"), id: "heat-map" });
  loading(frame.drawing, text, { height: 480 });
  const legend = el("div");

  const units = () =>
    Math.min(
      new Map(ranges).get(range) ?? stream.units,
      stream.units - choice.window + 1,
      Math.floor(MAX_NUMBERS / count),
    );
  const load = async () => {
    const mine = (turn += 1);
    stopped.abort();
    stopped = new AbortController();
    try {
      // Without names, the answer has all keys.
      const keys = count < stream.keys ? await largestKeys(api, stream, count) : [];
      const [path, asked] = numbersCall(stream, { window: choice.window, keys });
      call = api.url(path, { ...asked, last: units() });
      answer = await api.get(path, { ...asked, last: units() }, stopped);
      if (mine !== turn) return;
      series = ordered(seriesOf(answer), order);
      draw();
    } catch (error) {
      if (mine !== turn || error.name === "AbortError") return;
      heat?.destroy();
      heat = null;
      failure(frame.drawing, context, error, load);
    }
  };
  const open = (row, column) =>
    context.go(
      writeHash(stream.name, "", {
        key: series[row].name,
        window: choice.window > 1 ? choice.window : null,
      }),
    );
  const unitName = ({ time, end, unit }) =>
    stream.zone ? format.unit(time, end) : text("chart.unit", { unit });
  const read = (row, column) => {
    const point = pointOf(series[row], column);
    const words =
      point.low == null
        ? text("chart.no_interval")
        : text("chart.interval", {
            low: format.number(point.low),
            high: format.number(point.high),
          });
    return [
      el("b", { text: series[row].name }),
      ` · ${unitName(point)} · `,
      el("b", { text: format.number(point.estimate) }),
      ` ${words}`,
      point.repeated ? ` · ${text("chart.repeated")}` : "",
    ];
  };
  const draw = () => {
    const [, high] = extent(
      series.map((one) => ({ ...one, low: one.estimate, high: one.estimate })),
      -Infinity,
      Infinity,
    );
    const scale = colourScale([0, Math.max(1, high)], { root });
    const options = {
      names: series.map(({ name }) => name),
      times: series[0].times,
      ends: series[0].ends,
      rows: series.map(({ estimate }) => estimate),
      scale,
      zone: stream.zone,
      text,
      format,
      label: text("heat.label", { count: series.length }),
      read,
      open,
      themed: draw,
      doubtful: doubt
        ? (row, column) => series[row].low[column] == null || series[row].low[column] <= 0
        : null,
    };
    if (heat) heat.update(options);
    else {
      frame.drawing.replaceChildren();
      heat = heatCanvas(frame.drawing, options);
      frame.drawing.append(legend);
    }
    legend.replaceChildren(
      scaleLegend(scale, { format, label: measureOf(choice, context) }),
      ...(doubt ? [el("p", { class: "hint", text: text("heat.doubt_hint") })] : []),
    );
    frame.update({
      title: text("heat.title"),
      sub: measureOf(choice, context),
      call,
      note: [...sureness(answer, series, context, "cells"), text("heat.colours")],
      table: () => ({
        columns: [
          { name: text("table.begins") },
          ...series.map(({ name }) => ({ name, number: true })),
        ],
        rows: series[0].units
          .map((unit, at) => [
            stream.zone
              ? format.unit(series[0].times[at], series[0].ends[at])
              : format.number(unit),
            ...series.map((one) => format.number(one.estimate[at])),
          ])
          .reverse(),
      }),
    });
  };
  await load();
  const stop = live.follow(
    stream.name,
    async ({ unit }) => {
      if (!answer) {
        await load();
        return;
      }
      if (unit <= answer.last) return;
      const keys = series.length < stream.keys ? series.map(({ name }) => name) : [];
      const [path, asked] = numbersCall(stream, { window: choice.window, keys });
      const more = await api.get(path, { ...asked, from: answer.last + 1 }, stopped),
        length = series[0].times.length;
      append(
        series,
        seriesOf(more),
        range === "all"
          ? -Infinity
          : series[0].times[Math.min(length - 1, seriesOf(more)[0].units.length)],
      );
      answer = { ...answer, last: more.last };
      draw();
    },
    { after: answer?.last ?? stream.newest.unit },
  );
  return () => {
    stop();
    stopped.abort();
    heat?.destroy();
  };
}

/** Rows by name, or with the largest sum over the whole stretch first. */
function ordered(series, order) {
  const size = ({ estimate }) => estimate.reduce((sum, value) => sum + (value ?? 0), 0);
  return order === "name"
    ? series.toSorted((one, other) => one.name.localeCompare(other.name))
    : series.toSorted((one, other) => size(other) - size(one));
}
