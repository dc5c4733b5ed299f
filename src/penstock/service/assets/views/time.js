// One key, or all keys together, over time.
import { tableOf } from "../parts/answers.js";
import { lineChart } from "../parts/chart.js";
import { keySearch } from "../parts/controls.js";
import { el } from "../parts/dom.js";
import { figure } from "../parts/figure.js";
import { FollowingSeries } from "../parts/following_series.js";
import { keyFinder, largestKeys, numbersCall, showsTotal } from "../parts/questions.js";
import { eachName, windowName } from "../parts/ranges.js";
import { empty, failure, loading } from "../parts/states.js";
import { sureness } from "../parts/sure.js";
import {
  choiceParams,
  numberSwitches,
  rangeControl,
  timeChoice,
  windowControl,
} from "../parts/time_controls.js";
import { alertMarks, eventMarks } from "../parts/timeline_marks.js";

export async function show(element, context) {
  const { api, stream, params, text, live } = context;
  if (!stream.newest) {
    empty(element, text("state.empty"), text("state.empty_words"));
    return live.on(stream.name, () => {
      element.replaceChildren();
      context.go(`${location.hash.split("?")[0]}?`);
    });
  }
  let choice = timeChoice(stream, params),
    key = params.get("key");
  if (key == null) key = showsTotal(stream) ? "" : (await largestKeys(api, stream, 1))[0];
  const total =
    showsTotal(stream) || stream.keys > 1
      ? [{ value: "", name: text("time.total"), more: text("time.total_more") }]
      : [];
  const nameOf = (one) => one || text("time.total");

  let source = null,
    chart = null,
    marks = eventMarks(stream);
  const change = (changes) => {
    ({ key = key, ...changes } = changes);
    choice = { ...choice, ...changes };
    context.keep({ key, ...choiceParams(stream, choice) });
    load();
  };
  const search = keySearch({
    label: text("time.key"),
    value: nameOf(key),
    text,
    search: keyFinder(api, stream, total),
    choose: (value) => change({ key: value }),
  });
  const controls = el(
    "form",
    { class: "controls", on: { submit: (event) => event.preventDefault() } },
    search,
    rangeControl(stream, choice, context, change),
    windowControl(stream, choice, context, change),
    numberSwitches(stream, choice, context, change),
  );
  element.append(controls);
  const frame = figure(element, { text, title: nameOf(key), id: "over-time" });
  loading(frame.drawing, text);

  const drawn = ({ answer, series, call, fresh }) => {
    const options = {
      series: series.map((one) => ({ ...one, name: nameOf(key) })),
      marks,
      zone: stream.zone,
      text,
      format: context.format,
      confidence: answer.confidence,
      measure: measureOf(choice, context),
      label: text("time.label", { name: nameOf(key) }),
      onRange: (from, to) => source.refine(from, to).catch(() => {}),
    };
    if (chart) chart.update(options);
    else {
      frame.drawing.replaceChildren();
      chart = lineChart(frame.drawing, options);
    }
    if (fresh) chart.look(null);
    frame.update({
      title: nameOf(key),
      sub: subtitle(choice, context),
      call,
      note: sureness(answer, series, context),
      table: () => tableOf(options.series, { ...context, zone: Boolean(stream.zone) }),
    });
  };
  /** Add alerts when they come; the chart does not wait for them. */
  const mark = async (mine) => {
    const alerts = await alertMarks(api, stream, key ? [key] : null, text);
    if (mine !== source || !alerts.length) return;
    marks = [...eventMarks(stream), ...alerts];
    mine.redraw();
  };
  const load = async () => {
    source?.end();
    const mine = (source = new FollowingSeries(context, {
      call: numbersCall(stream, { ...choice, keys: key ? [key] : [], together: !key }),
      choice,
      drawn,
    }));
    frame.node.setAttribute("aria-busy", "true");
    try {
      marks = eventMarks(stream);
      await Promise.all([mine.load(), mark(mine)]);
    } catch (error) {
      if (mine !== source || error.name === "AbortError") return;
      chart?.destroy();
      chart = null;
      failure(frame.drawing, context, error, load);
      frame.update({ title: nameOf(key), note: [], call: null, table: null });
    } finally {
      if (mine === source) frame.node.removeAttribute("aria-busy");
    }
  };
  await load();
  const stop = live.follow(
    stream.name,
    async ({ unit }) => {
      if (!chart) {
        await load();
        return;
      }
      await Promise.all([source.extend(unit), mark(source)]);
    },
    { after: source.answer?.last ?? stream.newest.unit },
  );
  return () => {
    stop();
    source.end();
    chart?.destroy();
  };
}

/** What the axis counts. */
export function measureOf({ window }, { stream, text, format }) {
  return window > 1
    ? text("measure.sum", { length: windowName(window, stream, { text, format }) })
    : text("measure.count", { every: eachName(stream, { format }) });
}

function subtitle(choice, context) {
  const { text } = context,
    parts = [measureOf(choice, context)];
  if (choice.filtered) parts.push(text("switch.filtered"));
  if (choice.nonnegative) parts.push(text("switch.nonnegative"));
  return parts.join(" · ");
}
