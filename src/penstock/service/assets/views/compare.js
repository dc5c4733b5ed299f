// Several keys side by side: in one chart, or one small chart each.
import { tableOf } from "../parts/answers.js";
import { lineChart, shapeKey } from "../parts/chart.js";
import { chip, keySearch, pills, toggle } from "../parts/controls.js";
import { el } from "../parts/dom.js";
import { extent } from "../parts/drawing.js";
import { figure } from "../parts/figure.js";
import { FollowingSeries } from "../parts/following_series.js";
import { keyFinder, largestKeys, numbersCall } from "../parts/questions.js";
import { empty, failure, loading } from "../parts/states.js";
import { sureness } from "../parts/sure.js";
import {
  choiceParams,
  numberSwitches,
  rangeControl,
  timeChoice,
  windowControl,
} from "../parts/time_controls.js";
import { eventMarks } from "../parts/timeline_marks.js";
import { writeHash } from "../router.js";
import { measureOf } from "./time.js";

const MAX_KEYS = 6; // as many as there are shapes and colours
const FIRST_KEYS = 3;

export async function show(element, context) {
  const { api, stream, params, text, live } = context;
  if (!stream.newest) {
    empty(element, text("state.empty"), text("state.empty_words"));
    return () => {};
  }
  let choice = timeChoice(stream, params),
    keys = params.getAll("key").slice(0, MAX_KEYS);
  if (!keys.length) keys = await largestKeys(api, stream, FIRST_KEYS);
  // Three bands on top of each other cannot be read on a phone.
  const usual = matchMedia("(max-width: 600px)").matches ? "small" : "one";
  let as = ["small", "one"].find((one) => one === params.get("as")) ?? usual,
    alike = !params.has("own");
  let source = null,
    charts = [],
    state = null;

  const chips = el("ul", { class: "chips", "aria-label": text("compare.chosen") });
  const change = (changes) => {
    ({ keys = keys, as = as, alike = alike, ...changes } = changes);
    choice = { ...choice, ...changes };
    context.keep({
      key: keys,
      as: as === usual ? null : as,
      own: !alike,
      ...choiceParams(stream, choice),
    });
    same.hidden = as !== "small";
    fillChips();
    load();
  };
  const fillChips = () => {
    chips.replaceChildren(
      ...keys.map((key, place) =>
        chip({
          name: key,
          sign: shapeKey(place),
          label: text("compare.remove", { key }),
          remove: keys.length > 1 && (() => change({ keys: keys.filter((one) => one !== key) })),
        }),
      ),
    );
    search.hidden = keys.length >= MAX_KEYS;
  };
  const finder = keyFinder(api, stream),
    search = keySearch({
      label: text("compare.add"),
      value: "",
      clear: true,
      text,
      placeholder: text("compare.placeholder"),
      search: async (words) => (await finder(words)).filter(({ value }) => !keys.includes(value)),
      choose: (key) => change({ keys: [...keys, key] }),
    });
  const same = toggle({
    label: text("compare.alike"),
    checked: alike,
    change: (on) => change({ alike: on }),
  });
  same.hidden = as !== "small";
  element.append(
    el(
      "form",
      { class: "controls", on: { submit: (event) => event.preventDefault() } },
      search,
      rangeControl(stream, choice, context, change),
      windowControl(stream, choice, context, change),
      pills({
        label: text("compare.as"),
        value: as,
        options: [
          ["one", text("compare.one")],
          ["small", text("compare.small")],
        ],
        change: (value) => change({ as: value }),
      }),
      numberSwitches(stream, choice, context, change, [same]),
    ),
    chips,
  );
  fillChips();
  const frame = figure(element, { text, title: text("compare.title"), id: "comparison" });
  loading(frame.drawing, text);

  const clear = () => {
    charts.forEach((chart) => chart.destroy());
    charts = [];
  };
  const optionsOf = (series, label, more = {}) => ({
    series,
    label,
    zone: stream.zone,
    text,
    format: context.format,
    confidence: state.answer.confidence,
    measure: measureOf(choice, context),
    marks: as === "one" ? eventMarks(stream) : [],
    ...more,
  });
  const plans = () => {
    const series = state.series.map((one, place) => ({ ...one, place }));
    if (as === "one") {
      return [
        optionsOf(series, text("compare.title"), {
          onRange: (from, to) => source.refine(from, to).catch(() => {}),
        }),
      ];
    }
    const [low, high] = extent(series, -Infinity, Infinity),
      room = (high - low) * 0.06;
    const range =
      alike && Number.isFinite(low) ? [Math.min(0, low) - (low < 0 ? room : 0), high + room] : null;
    return series.map((one) =>
      optionsOf([one], text("time.label", { name: one.name }), {
        small: true,
        zoom: false,
        height: 170,
        range,
      }),
    );
  };
  const drawn = (now) => {
    state = now;
    const planned = plans();
    if (charts.length === planned.length && charts.as === as && !now.fresh) {
      charts.forEach((chart, place) => chart.update(planned[place]));
    } else {
      clear();
      const grid = as === "small" ? el("div", { class: "multiples" }) : frame.drawing;
      frame.drawing.replaceChildren(...(as === "small" ? [grid] : []));
      charts = planned.map((options, place) => {
        const box =
          as === "small"
            ? el(
                "div",
                {},
                el(
                  "h3",
                  {},
                  shapeKey(place),
                  el("a", {
                    href: writeHash(stream.name, "", { key: keys[place] }),
                    text: keys[place],
                  }),
                ),
              )
            : grid;
        if (as === "small") grid.append(box);
        return lineChart(box, options);
      });
      charts.as = as;
    }
    frame.update({
      title: text("compare.title"),
      sub: measureOf(choice, context),
      call: now.call,
      note: sureness(now.answer, now.series, context),
      table: () => tableOf(now.series, { ...context, zone: Boolean(stream.zone) }),
    });
  };
  const load = async () => {
    source?.end();
    const mine = (source = new FollowingSeries(context, {
      call: numbersCall(stream, { ...choice, keys }),
      choice,
      drawn,
    }));
    try {
      await mine.load();
    } catch (error) {
      if (mine !== source || error.name === "AbortError") return;
      clear();
      failure(frame.drawing, context, error, load);
    }
  };
  await load();
  const stop = live.follow(stream.name, ({ unit }) => source.extend(unit), {
    after: source.answer?.last ?? stream.newest.unit,
  });
  return () => {
    stop();
    source.end();
    clear();
  };
}
