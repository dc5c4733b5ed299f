// The controls of charts over time: stretch, window, and what is done with the numbers.
import { pills, slider, toggle } from "./controls.js";
import { el } from "./dom.js";
import { whyNot } from "./questions.js";
import { firstRange, nearestStop, rangesOf, windowName, windowsOf } from "./ranges.js";

/**
 * @typedef {{range: string, from: string, to: string, window: number, nonnegative: boolean,
 *   filtered: boolean}} TimeChoice
 */

/** What the address says, with the defaults of the stream. @returns {TimeChoice} */
export function timeChoice(stream, params) {
  const names = rangesOf(stream).map(([name]) => name),
    range = params.get("range");
  const windows = windowsOf(stream),
    window = Number(params.get("window") ?? 1);
  return {
    range: names.includes(range) || range === "dates" ? range : firstRange(stream),
    from: params.get("from") ?? "",
    to: params.get("to") ?? "",
    window:
      whyNot(stream, "sum") || whyNot(stream, "counts")
        ? 1
        : (windows[nearestStop(windows, window)] ?? 1),
    nonnegative: params.has("nonnegative"),
    filtered: params.has("filtered") && !stream.filtered,
  };
}

/** The part of a choice that stands in the address: what differs from the defaults. */
export function choiceParams(stream, { range, from, to, window, nonnegative, filtered }) {
  return {
    range: range === firstRange(stream) ? null : range,
    ...(range === "dates" ? { from, to } : {}),
    window: window > 1 ? window : null,
    nonnegative,
    filtered,
  };
}

/** Pills for the stretch; "dates" opens two fields. */
export function rangeControl(stream, choice, { text }, change) {
  const dates = el("div", { class: "dates", hidden: choice.range !== "dates" });
  const field = (name) => {
    const input = el("input", {
      type: "date",
      value: choice[name],
      on: { change: () => change({ [name]: input.value }) },
    });
    return el("label", { class: "choice" }, el("span", { text: text(`range.${name}`) }), input);
  };
  dates.append(field("from"), field("to"));
  const options = [...rangesOf(stream).map(([name]) => name), ...(stream.zone ? ["dates"] : [])];
  const choose = pills({
    label: text("range.label"),
    value: choice.range,
    options: options.map((name) => [name, text(`range.${name}`)]),
    change: (range) => {
      dates.hidden = range !== "dates";
      change({ range });
    },
  });
  return el("div", { class: "group" }, choose, dates);
}

/** The slider from one unit to a month; null where the stream has no sums. */
export function windowControl(stream, choice, context, change) {
  const stops = windowsOf(stream),
    { text } = context;
  if (stops.length < 2 || whyNot(stream, "sum") || whyNot(stream, "counts")) return null;
  return slider({
    label: text("window.label"),
    place: nearestStop(stops, choice.window),
    stops: stops.map((value) => ({ value, name: windowName(value, stream, context) })),
    change: (window) => change({ window }),
  });
}

/**
 * Switches that change numbers after the release. A stream of filtered numbers needs no second
 * filter. On a phone they wait behind a line, so that the chart is in sight.
 * @param {object} stream
 * @param {TimeChoice} choice
 * @param {{text: Function}} context
 * @param {(changes: Partial<TimeChoice>) => void} change
 * @param {Node[]} [others] switches of the view itself
 */
export function numberSwitches(stream, choice, { text }, change, others = []) {
  const switches = el(
    "div",
    { class: "group switches" },
    ...others,
    toggle({
      label: text("switch.nonnegative"),
      hint: text("switch.nonnegative_hint"),
      checked: choice.nonnegative,
      change: (nonnegative) => change({ nonnegative }),
    }),
    !stream.filtered &&
      !whyNot(stream, "counts") &&
      toggle({
        label: text("switch.filtered"),
        hint: text("switch.filtered_hint"),
        checked: choice.filtered,
        change: (filtered) => change({ filtered }),
      }),
  );
  if (!matchMedia("(max-width: 600px)").matches) return switches;
  return el("details", {}, el("summary", { text: text("switch.more") }), switches);
}
