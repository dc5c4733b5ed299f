// Alerts: which rules there are, when they fired, and how often a rule of your own would have fired.
import { copyable } from "../parts/copy.js";
import { el, newId } from "../parts/dom.js";
import { figure } from "../parts/figure.js";
import { barsOf, drawLanes } from "../parts/lanes.js";
import { newestAlerts } from "../parts/newest_alerts.js";
import { toSeconds } from "../format.js";

const TRIED = 500; // units on which a rule is tried at first
const MOMENT = 250,
  MAX_TRIES = 20; // the alerts of a unit come a moment after the unit
const NUMBERS = ["counts", "sum"],
  MOVES = ["jump", "drop", "change", "low"];

export async function show(element, context) {
  const { api, stream, text } = context;
  const { rules } = await api.get(`${stream.url}/alerts/rules`);
  const page = el(
    "div",
    { class: "stack" },
    el("p", { class: "lead", text: text("alerts.lead") }),
    ruleList(rules, context),
  );
  element.append(page);
  const ends = [rules.length ? await past(page, context) : () => {}, tryRule(page, context)];
  return () => ends.forEach((end) => end());
}

function ruleList(rules, { text }) {
  const card = el("section", { class: "card" }, el("h2", { text: text("alerts.rules") }));
  if (!rules.length) card.append(el("p", { text: text("alerts.no_rules") }));
  else
    card.append(
      el(
        "dl",
        { class: "rules" },
        ...rules.map((rule) =>
          el("div", {}, el("dt", { text: rule.name }), el("dd", { lang: "en", text: rule.words })),
        ),
      ),
    );
  return card;
}

// The stretch of time that a timeline shows: from the first alert or the first unit on, until now.
function stretch(events, { stream }, units) {
  const newest = stream.newest,
    timed = Boolean(newest?.begins),
    length = stream.seconds ?? 1;
  const to = timed ? toSeconds(newest.ends) : (newest?.unit ?? 1) + 1;
  const first = Math.min(
    ...events.map((event) => (event.begins ? toSeconds(event.begins) : event.unit)),
    to - length,
  );
  const from = units ? to - units * (timed ? length : 1) : first - 0.04 * (to - first);
  return { from: Math.min(from, first), to, timed };
}

function eventTable(events, { stream, text, format }) {
  return {
    columns: [
      { name: text("alerts.time") },
      { name: text("alerts.rule") },
      { name: text("alerts.key") },
      { name: text("alerts.state") },
      { name: text("alerts.number"), number: true },
      { name: text("alerts.interval"), number: true },
      { name: text("alerts.threshold"), number: true },
    ],
    rows: [...events]
      .sort((a, b) => b.unit - a.unit)
      .map((event) => [
        event.begins
          ? format.unit(event.begins, toSeconds(event.begins) + (stream.seconds ?? 86_400))
          : format.number(event.unit, 0),
        event.rule,
        event.key,
        text(`alerts.${event.state}`),
        format.number(event.estimate),
        format.interval(event.low, event.high) || "–",
        format.number(event.threshold),
      ]),
  };
}

// -- what has happened -------------------------------------------------------------------------------

async function past(element, context) {
  const { api, stream, text, format, live } = context,
    path = `${stream.url}/alerts`;
  let events = [];
  const part = figure(element, {
    text,
    title: text("alerts.timeline"),
    call: path,
    csv: false,
    note: text("alerts.note"),
    table: () => eventTable(events, context),
  });
  const lanes = el("div", { class: "lanes-box" }),
    list = el("ul", { class: "alert-list", "aria-live": "polite" });
  part.drawing.append(list, lanes);
  const draw = () => {
    const bars = barsOf(events);
    drawLanes(lanes, bars, { text, format, ...stretch(events, context) });
    lanes.hidden = !bars.length;
    const open = bars.filter((bar) => bar.to == null);
    part.update({
      sub: open.length ? text("alerts.open", { count: open.length }) : text("alerts.none_open"),
    });
    list.replaceChildren(
      ...(open.length ? open : bars.slice(-3)).toReversed().map((bar) => item(bar, context)),
    );
  };
  const load = async (unit) => {
    const found = await newestAlerts(api, stream, unit);
    events = found.events;
    draw();
    return found.unit;
  };
  await load(stream.newest?.unit ?? 1);
  const watch = onWidth(lanes, draw);
  const end = live.follow(
    stream.name,
    async (told) => {
      context.stream.newest = {
        ...stream.newest,
        ...(await api.get(stream.url)).newest,
        unit: told.unit,
      };
      for (let tried = 0; (await load(told.unit)) < told.unit && tried < MAX_TRIES; tried += 1)
        await pause(MOMENT);
    },
    { after: stream.newest?.unit },
  );
  return () => {
    end();
    watch();
  };
}

const pause = (milliseconds) =>
  new Promise((done) => {
    setTimeout(done, milliseconds);
  });

function item(bar, { stream, text, format }) {
  const { raised, cleared } = bar,
    when = (event) =>
      event.begins
        ? format.unit(event.begins, toSeconds(event.begins) + (stream.seconds ?? 86_400))
        : text("alerts.unit", { unit: event.unit });
  const words = cleared
    ? text("alerts.was", { from: when(raised), to: when(cleared) })
    : text("alerts.is", { from: when(raised) });
  return el(
    "li",
    { class: cleared ? "alert-item" : "alert-item is-open" },
    el("span", { class: "tag", text: text(cleared ? "alerts.cleared" : "alerts.raised") }),
    el(
      "span",
      {},
      el("b", { text: bar.key }),
      ` · ${bar.rule} · ${words} · ${format.number(raised.estimate)} ${raised.low == null ? "" : `(${format.interval(raised.low, raised.high)})`}`,
    ),
  );
}

function onWidth(box, draw) {
  let width = box.clientWidth;
  const watch = new ResizeObserver(() => {
    if (Math.abs(box.clientWidth - width) > 1) {
      width = box.clientWidth;
      draw();
    }
  });
  watch.observe(box);
  return () => watch.disconnect();
}

// -- a rule that is tried ----------------------------------------------------------------------------

function tryRule(element, context) {
  const { api, stream, text, format } = context;
  const known = new Set(
    (stream.questions ?? []).filter((one) => !one.why_not).map((one) => one.question),
  );
  const asked = [...NUMBERS, ...MOVES].filter((name) => !known.size || known.has(name));
  const control = {
    question: el(
      "select",
      {},
      ...asked.map((name) => el("option", { value: name, text: text(`alerts.question.${name}`) })),
    ),
    key: el("input", {
      type: "text",
      list: newId("keys"),
      placeholder: text("alerts.all_keys"),
      autocomplete: "off",
    }),
    window: el("input", { type: "text", value: "2", size: 6 }),
    side: el(
      "select",
      {},
      el("option", { value: "above", text: text("alerts.above") }),
      el("option", { value: "below", text: text("alerts.below") }),
    ),
    threshold: el("input", { type: "number", value: "100", step: "any", required: true }),
    clear: el("input", { type: "number", step: "any", placeholder: text("alerts.same") }),
    sure: el("input", { type: "checkbox", checked: true }),
    last: el("input", {
      type: "number",
      min: 1,
      max: Math.max(1, stream.units ?? 1),
      value: Math.min(TRIED, Math.max(1, stream.units ?? 1)),
    }),
  };
  const labelled = Object.fromEntries(
    Object.entries(control)
      .filter(([name]) => name !== "sure")
      .map(([name, input]) => {
        input.id = newId(name);
        return [
          name,
          el(
            "p",
            { class: "field" },
            el("label", { for: input.id, text: text(`alerts.field.${name}`) }),
            input,
          ),
        ];
      }),
  );
  const sure = el(
    "label",
    { class: "check" },
    control.sure,
    " ",
    text("alerts.field.sure", { share: format.percent(0.95) }),
  );
  const form = el(
    "form",
    { class: "form", novalidate: false },
    ...Object.values(labelled),
    sure,
    el(
      "p",
      { class: "field" },
      el("button", { type: "submit", class: "button", text: text("alerts.try") }),
    ),
  );
  const said = el("p", { class: "tried", role: "status" }),
    result = el("div", {});
  element.append(
    el(
      "section",
      { class: "card try-rule" },
      el("h2", { text: text("alerts.try_title") }),
      el("p", { text: text("alerts.try_lead") }),
      form,
      said,
    ),
    result,
  );
  suggestKeys(control.key, form, context);
  const fit = () => {
    const question = control.question.value;
    labelled.window.hidden = question === "counts";
    labelled.side.hidden = MOVES.includes(question);
  };
  control.question.addEventListener("change", fit);
  fit();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await tried(wish(control), { said, result, context });
  });
  return () => {};
}

async function suggestKeys(input, form, { api, stream }) {
  try {
    const { keys } = await api.get(`${stream.url}/keys`, { limit: 1000 });
    form.append(
      el(
        "datalist",
        { id: input.getAttribute("list") },
        ...keys.map(({ key }) => el("option", { value: key })),
      ),
    );
  } catch {
    /* a key can be typed without the list */
  }
}

function wish({ question, key, window, side, threshold, clear, sure, last }) {
  const move = MOVES.includes(question.value);
  return {
    question: question.value,
    key: key.value || null,
    window: question.value === "counts" ? null : window.value,
    [move ? "delta" : side.value]: threshold.value,
    clear: clear.value || null,
    sure: sure.checked ? "0.95" : null,
    last: last.value,
  };
}

async function tried(params, { said, result, context }) {
  const { api, stream, text, format } = context,
    path = `${stream.url}/alerts/try`;
  try {
    const found = await api.get(path, params),
      events = found.events ?? [];
    said.className = "tried";
    said.textContent = text("alerts.tried", {
      count: found.fired,
      cleared: found.cleared,
      units: found.units,
    });
    result.replaceChildren();
    const part = figure(result, {
      text,
      title: text("alerts.tried_title"),
      call: api.url(path, params),
      csv: false,
      note: text("alerts.note"),
      table: () => eventTable(events, context),
    });
    const lanes = el("div", { class: "lanes-box" });
    part.drawing.append(
      lanes,
      el("h3", { text: text("alerts.toml") }),
      copyable(toml(params), { text, label: text("alerts.toml") }),
    );
    const bars = barsOf(events);
    lanes.hidden = !bars.length;
    if (bars.length)
      drawLanes(lanes, bars, { text, format, ...stretch(events, context, Number(params.last)) });
  } catch (error) {
    if (error.name !== "ApiError") throw error;
    result.replaceChildren();
    said.className = "tried bad";
    said.textContent = error.message;
  }
}

// The rule as the pipeline writes it.
function toml({ question, key, window, above, below, delta, clear, sure }) {
  const line = (name, value) => (value == null ? [] : [`${name} = ${value}`]),
    quoted = (value) => (value == null ? null : JSON.stringify(value));
  return [
    "[[alert]]",
    'name = "my rule"',
    ...line("question", question === "counts" ? null : quoted(question)),
    ...line("keys", key == null ? null : `[${quoted(key)}]`),
    ...line("window", window == null ? null : /^\d+$/.test(window) ? window : quoted(window)),
    ...line("above", above),
    ...line("below", below),
    ...line("delta", delta),
    ...line("clear", clear),
    ...line("sure", quoted(sure)),
  ].join("\n");
}
