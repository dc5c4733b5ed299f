// A map of the stream's keys: the count of a unit or its change, with a slider over all units.
import { css, el, newId, svg } from "../parts/dom.js";
import { figure } from "../parts/figure.js";
import { numbersCall, whyNot } from "../parts/questions.js";
import { unitSeconds } from "../parts/ranges.js";
import { writeHash } from "../router.js";
import { quantile, ramp, roundUp } from "./map_colours.js";
import { drawMap } from "./map_drawing.js";

const MAX_NUMBERS = 20_000; // per request: a fifth of what the API allows
const MAX_UNITS = 48;
const FRAME = 450; // milliseconds between two units while the map plays
const DAY = 86_400;

export async function show(element, context) {
  const { api, stream, service, text } = context;
  if (!service.map || !stream.newest) {
    element.append(el("p", { class: "card", text: text(service.map ? "map.empty" : "map.none") }));
    return () => {};
  }
  const geojson = await api.get(service.map.url);
  const units = new UnitValues(context);
  await units.load(stream.newest.unit, choices(context)[0]);
  return new MapView(element, context, geojson, units).close;
}

// What can be shown: counts, and changes against an earlier time that makes sense for this stream.
function choices({ stream, text, format }) {
  const [path] = numbersCall(stream, {}); // some streams release sums, and have no counts
  const found = [{ id: "count", path, params: {}, lag: 0, name: text("map.count") }];
  if (whyNot(stream, "change")) return found;
  const units = stream.newest.unit - stream.first_unit + 1;
  for (const [lag, words] of lags({ stream, text, format })) {
    if (lag < units) {
      found.push({
        id: `change-${lag}`,
        path: `${stream.url}/answers/change`,
        params: { window: lag + 1, delta: 1 },
        lag,
        name: text("map.change", { ago: words }),
      });
    }
  }
  return found;
}

// Numbers of units, in words: one, a window of the promise, a day, a week.
function lags({ stream, text, format }) {
  const { promise } = stream,
    seconds = unitSeconds(stream),
    found = new Map([[1, text("map.unit_before")]]);
  for (const length of seconds ? [promise.window_seconds, DAY, 7 * DAY] : []) {
    if (length % seconds === 0 && length > seconds) {
      found.set(length / seconds, format.duration(length));
    }
  }
  if (!seconds && promise.window > 1) {
    found.set(promise.window, text("map.units", { count: promise.window }));
  }
  return [...found].sort(([one], [other]) => one - other);
}

// The numbers of all keys, unit by unit, fetched in blocks and kept.
class UnitValues {
  constructor({ api, stream }) {
    Object.assign(this, { api, stream, blocks: new Map(), found: new Map() });
    this.size = Math.max(
      1,
      Math.min(MAX_UNITS, Math.floor(MAX_NUMBERS / Math.max(1, stream.keys))),
    );
  }

  // The values of a unit: {begins, ends, confidence, values: Map(key → {estimate, low, high})}.
  async load(unit, choice) {
    const name = (at) => `${choice.id} ${at}`;
    if (!this.found.has(name(unit))) {
      const block = Math.floor((unit - 1) / this.size),
        from = block * this.size;
      // Units at the beginning have nothing to be compared with.
      let after = Math.max(from, this.stream.first_unit - 1 + choice.lag);
      while (this.found.has(name(after + 1))) after += 1; // of the newest block, only what is new
      const params = { ...choice.params, after, limit: from + this.size - after };
      if (!this.blocks.has(name(block)))
        this.blocks.set(name(block), this.api.get(choice.path, params));
      try {
        this.keep(await this.blocks.get(name(block)), name);
      } finally {
        this.blocks.delete(name(block));
      }
    }
    return this.found.get(name(unit)) ?? null;
  }

  keep(answer, name) {
    this.keys ??= new Set(answer.series.map((one) => one.name));
    answer.units.forEach((unit, at) => {
      const values = new Map(
        answer.series.map((one) => [
          one.name,
          { estimate: one.estimate[at], low: one.low[at], high: one.high[at] },
        ]),
      );
      this.found.set(name(unit), {
        unit,
        begins: answer.begins?.[at],
        ends: answer.ends?.[at],
        confidence: answer.confidence,
        values,
      });
    });
  }

  known(choice) {
    return [...this.found]
      .filter(([name]) => name.startsWith(`${choice.id} `))
      .map(([, found]) => found);
  }
}

class MapView {
  constructor(element, context, geojson, units) {
    Object.assign(this, context, { context, element, units });
    this.close = this.close.bind(this);
    this.newest = this.stream.newest.unit;
    this.choices = choices(context);
    this.choice =
      this.choices.find((one) => one.id === context.params.get("show")) ?? this.choices[0];
    const wanted = Number(context.params.get("unit"));
    this.unit = wanted >= this.first && wanted <= this.newest ? wanted : this.newest;
    this.build(geojson);
    this.ends = [
      this.live.follow(this.stream.name, (told) => this.advance(told.unit), { after: this.newest }),
      listening(document, "theme", () => this.paint()),
    ];
    this.move(this.unit);
  }

  get first() {
    return this.stream.first_unit + this.choice.lag;
  }

  build(geojson) {
    const { text } = this,
      slider = newId("unit"),
      what = newId("what");
    this.select = el(
      "select",
      { id: what, on: { change: () => this.choose(this.select.value) } },
      ...this.choices.map((one) => el("option", { value: one.id, text: one.name })),
    );
    this.select.value = this.choice.id;
    this.slider = el("input", {
      type: "range",
      id: slider,
      min: this.first,
      max: this.newest,
      step: 1,
      class: "map-slider",
      on: { input: () => this.move(Number(this.slider.value)) },
    });
    this.button = el("button", {
      type: "button",
      class: "button quiet map-play",
      on: { click: () => this.play(!this.timer) },
    });
    this.back = el("button", {
      type: "button",
      class: "button quiet",
      text: text("map.newest"),
      on: {
        click: () => {
          this.play(false);
          this.move(this.newest);
        },
      },
    });
    this.time = el("output", { class: "map-time", for: slider });
    this.tip = el("div", { class: "map-tip", hidden: true });
    this.box = el("div", { class: "map-box" });
    this.legend = el("div", { class: "map-legend" });
    this.missing = el("p", { class: "hint" });
    const controls = el(
      "div",
      { class: "map-controls" },
      el(
        "p",
        { class: "map-choice" },
        el("label", { for: what, text: text("map.what") }),
        " ",
        this.select,
      ),
      el(
        "div",
        { class: "map-times" },
        this.button,
        el("label", { class: "map-label", for: slider, text: text("map.time") }),
        this.slider,
        this.back,
      ),
    );
    this.part = figure(this.element, {
      text,
      title: text("map.title"),
      call: this.call(),
      table: () => this.table(),
    });
    this.part.drawing.append(
      controls,
      this.time,
      el("div", { class: "map-frame" }, this.box, this.tip),
      this.legend,
      this.missing,
    );
    this.map = drawMap(this.box, {
      geojson,
      property: this.service.map.key,
      keys: this.units.keys,
      label: text("map.label"),
      chosen: (key, place) => this.tell(key, place),
      opened: (key) => this.go(writeHash(this.stream.name, "", { key })),
    });
    const away = this.units.keys.size - this.map.areas.length;
    this.missing.textContent = away ? text("map.missing", { count: away }) : "";
    this.play(false);
  }

  call() {
    return this.api.url(this.choice.path, { ...this.choice.params, unit: this.unit });
  }

  choose(id) {
    this.choice = this.choices.find((one) => one.id === id);
    this.slider.min = this.first;
    this.keep({ show: id });
    this.move(Math.max(this.unit, this.first));
  }

  // Show a unit. Of several wishes in a row only the last is drawn.
  async move(unit) {
    this.unit = unit;
    this.slider.max = this.newest;
    this.slider.value = unit;
    this.back.disabled = unit === this.newest;
    const choice = this.choice;
    this.box.setAttribute("aria-busy", "true");
    const found = await this.units.load(unit, choice);
    if (this.unit !== unit || this.choice !== choice || this.closed) return;
    this.box.removeAttribute("aria-busy");
    this.shown = found;
    this.paint();
  }

  async advance(unit) {
    const following = this.unit === this.newest && !this.timer;
    this.newest = Math.max(unit, this.newest);
    this.slider.max = this.newest;
    this.back.disabled = this.unit === this.newest;
    if (following) await this.move(this.newest);
  }

  play(going) {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = this.text(going ? "map.pause" : "map.play");
    this.button.setAttribute("aria-pressed", String(going));
    if (!going) return;
    if (this.unit >= this.newest) this.move(Math.max(this.first, this.newest - MAX_UNITS));
    this.timer = setInterval(() => {
      if (this.box.hasAttribute("aria-busy")) return;
      if (this.unit >= this.newest) this.play(false);
      else this.move(this.unit + 1);
    }, FRAME);
  }

  // The scale holds for every unit that was loaded, so that colours can be compared while it plays.
  scale() {
    const shown = this.units
      .known(this.choice)
      .flatMap((found) => [...found.values.values()].map((one) => one.estimate));
    const sizes = shown.map((one) => (this.choice.lag ? Math.abs(one) : one));
    return roundUp(quantile(sizes, 0.98));
  }

  paint() {
    const { shown, choice, text, format } = this,
      most = this.scale(),
      colour = ramp(choice.lag ? "--change" : "--ramp");
    const share = (x) => (choice.lag ? 0.5 + x / (2 * most) : x / most),
      looks = new Map();
    for (const [key, value] of shown?.values ?? []) {
      if (value.estimate == null) continue;
      looks.set(key, {
        colour: colour(share(value.estimate)),
        sure: isSure(value),
        share: Math.abs(value.estimate) / most,
        name: `${key}: ${this.words(value)}`,
      });
    }
    this.map.paint(looks);
    this.time.textContent = shown?.begins
      ? format.unit(shown.begins, shown.ends)
      : text("map.unit", { unit: this.unit });
    this.slider.setAttribute("aria-valuetext", this.time.textContent);
    this.writeLegend(most, colour);
    this.part.update({ call: this.call(), note: this.note() });
    if (this.chosen) this.tell(...this.chosen);
  }

  note() {
    const { text, format, choice, shown } = this,
      share = format.percent(shown?.confidence ?? 0.95);
    return [
      text("map.note", { share }),
      text(choice.lag ? "map.note_change" : "map.note_count", { share }),
    ];
  }

  words({ estimate, low, high }) {
    const { text, format, choice } = this,
      sign = choice.lag && estimate > 0 ? "+" : "";
    const parts = [
      `${sign}${format.number(estimate)}${low == null ? "" : ` (${format.interval(low, high)})`}`,
    ];
    if (!isSure({ low, high }))
      parts.push(text(choice.lag ? "map.unsure_change" : "map.unsure_count"));
    return parts.join(" · ");
  }

  writeLegend(most, colour) {
    const { text, format, choice } = this,
      least = choice.lag ? -most : 0,
      id = newId("ramp");
    const stops = Array.from({ length: 11 }, (_, i) =>
      svg("stop", { offset: `${i * 10}%`, "stop-color": colour(i / 10) }),
    );
    const bar = svg(
      "svg",
      {
        class: "map-ramp",
        viewBox: "0 0 100 10",
        preserveAspectRatio: "none",
        "aria-hidden": "true",
      },
      svg("defs", {}, svg("linearGradient", { id }, ...stops)),
      svg("rect", { width: 100, height: 10, fill: `url(#${id})` }),
    );
    const hatch = svg(
      "svg",
      { class: "map-sample", viewBox: "0 0 26 14", "aria-hidden": "true" },
      svg("rect", { width: 26, height: 14, fill: css("--grid") }),
      svg("rect", { width: 26, height: 14, fill: "url(#map-hatch)" }),
    );
    this.legend.replaceChildren(
      el(
        "span",
        { class: "map-scale" },
        el("span", { text: format.number(least) }),
        bar,
        el("span", {
          text: text("map.or_more", { number: `${choice.lag ? "+" : ""}${format.number(most)}` }),
        }),
      ),
      el(
        "span",
        { class: "map-scale" },
        hatch,
        el("span", { text: text(choice.lag ? "map.legend_change" : "map.legend_count") }),
      ),
    );
  }

  tell(key, place) {
    this.chosen = key == null ? null : [key, place];
    this.tip.hidden = key == null;
    if (key == null) return;
    const value = this.shown?.values.get(key);
    this.tip.replaceChildren(
      el("b", { text: key }),
      el("span", {
        text: value?.estimate == null ? this.text("map.no_number") : this.words(value),
      }),
    );
    const [x, y] = place,
      right = x > this.box.clientWidth / 2;
    this.tip.style.left = right ? "" : `${x + 16}px`;
    this.tip.style.right = right ? `${this.box.clientWidth - x + 16}px` : "";
    this.tip.style.top = `${Math.max(0, y - 14)}px`;
  }

  table() {
    const { text, format } = this;
    const rows = [...(this.shown?.values ?? [])].sort(
      ([, a], [, b]) => (b.estimate ?? -Infinity) - (a.estimate ?? -Infinity),
    );
    return {
      columns: [
        { name: text("map.key") },
        { name: this.choice.name, number: true },
        { name: text("map.low"), number: true },
        { name: text("map.high"), number: true },
        { name: text("map.sure") },
      ],
      rows: rows.map(([key, one]) => [
        key,
        format.number(one.estimate),
        format.number(one.low),
        format.number(one.high),
        text(isSure(one) ? "map.yes" : "map.no"),
      ]),
    };
  }

  close() {
    this.closed = true;
    this.play(false);
    this.map.close();
    for (const end of this.ends) end();
  }
}

// Sure: the interval is known and does not contain 0.
const isSure = ({ low, high }) => low != null && high != null && (low > 0 || high < 0);

function listening(target, event, listener) {
  target.addEventListener(event, listener);
  return () => target.removeEventListener(event, listener);
}
