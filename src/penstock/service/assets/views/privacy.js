// The privacy page: what is promised, what is not, what was spent, and how to check all of it.
import { toSeconds } from "../format.js";
import { lineChart } from "../parts/chart.js";
import { connected, copyable } from "../parts/copy.js";
import { el, newId } from "../parts/dom.js";
import { figure } from "../parts/figure.js";
import { failure } from "../parts/states.js";
import { belief, fraction, likelihood, suspicion } from "./promise_numbers.js";

const POINTS = 600; // of the chart of spends
const AGAIN = 3_000; // milliseconds until a ledger that is still being read is asked for again

export async function show(element, context) {
  const { text } = context,
    ends = [];
  const spending = el("div", {}),
    checked = el("section", { class: "card" });
  element.append(
    el(
      "div",
      { class: "stack" },
      el("p", { class: "lead", text: text("privacy.lead", spoken(context)) }),
      meaning(context),
      gaps(context),
      spending,
      checked,
      yourself(context),
    ),
  );
  ends.push(verification(checked, context), patiently(spending, context));
  return () => ends.forEach((end) => end());
}

// The values that sentences about the promise use.
function spoken({ stream, format, text }) {
  const { promise } = stream,
    length = promise.window_seconds ?? (stream.seconds && stream.seconds * promise.window);
  const span = length
    ? format.duration(length)
    : text("privacy.units", { count: Number(promise.window) });
  return {
    window: span,
    epsilon: promise.epsilon,
    delta: promise.delta,
    count: Number(promise.contribution),
  };
}

// -- what it means -----------------------------------------------------------------------------------

function meaning(context) {
  const { stream, text, format } = context,
    { promise } = stream,
    said = spoken(context);
  const percent = (share) => format.percent(share);
  const facts = [
    [
      promise.horizon === promise.window ? text("privacy.always") : said.window,
      text("privacy.fact_window"),
    ],
    [
      percent(belief(promise)),
      text(fraction(promise.delta) ? "privacy.fact_guess" : "privacy.fact_belief"),
    ],
    [
      `${format.number(likelihood(promise), likelihood(promise) < 10 ? 2 : 0)} ×`,
      text("privacy.fact_factor"),
    ],
    [
      format.number(said.count),
      text("privacy.fact_contribution", {
        unit: stream.seconds ? format.duration(stream.seconds) : stream.every_words,
      }),
    ],
  ];
  const card = el(
    "section",
    { class: "card" },
    el("h2", { text: text("privacy.meaning") }),
    el("p", { text: text("privacy.noise") }),
    el(
      "dl",
      { class: "amounts" },
      ...facts.map(([value, name]) =>
        el("div", {}, el("dt", { text: name }), el("dd", { text: value })),
      ),
    ),
  );
  if (!fraction(promise.delta)) card.append(trySuspicion(context));
  const words = el(
    "blockquote",
    { class: "promise", lang: "en" },
    el("span", { class: "eyebrow", text: text("privacy.exactly") }),
    promise.words,
  );
  const exact = el("p", {
    class: "hint",
    text: text(fraction(promise.delta) ? "privacy.exact_delta" : "privacy.exact", said),
  });
  card.append(words, exact);
  return card;
}

// "If somebody suspects … before, they can be … sure afterwards": the bound for any suspicion.
function trySuspicion({ stream, text, format }) {
  const id = newId("suspicion"),
    range = el("input", { type: "range", id, min: 1, max: 99, value: 50 });
  const before = el("i", { class: "meter-before" }),
    after = el("i", { class: "meter-after" });
  const said = el("output", { for: id, class: "meter-words" });
  const update = () => {
    const share = Number(range.value) / 100,
      most = suspicion(stream.promise, share);
    before.style.width = `${100 * share}%`;
    after.style.width = `${100 * most}%`;
    said.textContent = text("privacy.suspicion", {
      before: format.percent(share),
      after: format.percent(most),
    });
    range.setAttribute("aria-valuetext", format.percent(share));
  };
  range.addEventListener("input", update);
  update();
  return el(
    "div",
    { class: "suspicion" },
    el("label", { for: id, text: text("privacy.try_suspicion") }),
    range,
    el("span", { class: "meter", "aria-hidden": "true" }, after, before),
    said,
  );
}

function gaps({ stream, text, language }) {
  const { promise } = stream;
  // The server's sentences are English; the page has its own for every kind that it knows.
  const items =
    promise.gaps?.length && language !== "en"
      ? promise.gaps.map((gap) => el("li", { text: text(`privacy.gap.${gap.kind}`, gap.values) }))
      : promise.not_protected.map((sentence) => el("li", { lang: "en", text: sentence }));
  return el(
    "section",
    { class: "card warn" },
    el("h2", { text: text("privacy.gaps") }),
    el("p", { text: text("privacy.gaps_lead") }),
    el("ul", { class: "gaps" }, ...items),
  );
}

// -- what was spent ----------------------------------------------------------------------------------

// After a start, the server reads the whole ledger first. The rest of the page does not wait for it.
function patiently(element, context) {
  let end = null,
    timer = null,
    closed = false;
  const attempt = async () => {
    try {
      element.replaceChildren();
      const started = await spends(element, context);
      if (closed) started();
      else end = started;
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      if (closed) return;
      failure(element, context, error, error.status === 503 ? null : attempt);
      if (error.status === 503) timer = setTimeout(attempt, AGAIN);
    }
  };
  attempt();
  return () => {
    closed = true;
    clearTimeout(timer);
    end?.();
  };
}

async function spends(element, context) {
  const { api, stream, text, format, live } = context,
    path = `${stream.url}/ledger/windows`,
    params = { points: POINTS };
  let found = await api.get(path, params);
  const share = (spent) => fraction(spent) / (fraction(found.limit) || 1);
  const words = () =>
    text("privacy.spent_words", {
      currency: sign(found),
      highest: found.highest?.spent ?? "0",
      limit: found.limit,
      share: format.percent(share(found.highest?.spent ?? "0")),
    });
  const part = figure(element, {
    text,
    title: text("privacy.spent"),
    sub: words(),
    note: [text("privacy.spent_note"), ...sharing(found, stream, text)],
    call: api.url(path, params),
    csv: false,
    table: () => ({
      columns: [
        { name: text("privacy.unit") },
        { name: text("privacy.spent_column", { currency: sign(found) }), number: true },
      ],
      rows: found.units
        .map((unit, at) => [
          found.begins?.[0]
            ? format.unit(found.begins[at], found.ends[at])
            : format.number(unit, 0),
          found.spent[at],
        ])
        .reverse(),
    }),
  });
  const chart = lineChart(part.drawing, {
    series: spendSeries(found, context),
    measure: text("privacy.spent_axis"),
    label: text("privacy.spent_label"),
    height: 260,
    exact: true,
    zone: found.begins?.[0] ? stream.zone : null,
    text,
    format,
    limits: [
      { value: 100, name: text("privacy.limit", { currency: sign(found), limit: found.limit }) },
    ],
  });
  const end = live.follow(
    stream.name,
    async () => {
      const now = await api.get(path, params);
      if (now.unit === found.unit) return; // the server checks new units now and then
      found = now;
      chart.update({ series: spendSeries(found, context) });
      part.update({ sub: words() });
    },
    { after: stream.newest?.unit },
  );
  return () => {
    end();
    chart.destroy();
  };
}

const sign = ({ currency }) => (currency === "rho" ? "ρ" : "ε");

// Several views of one stream share its promise: each may spend a part of it.
function sharing({ limit, currency }, { promise }, text) {
  const whole = currency === "rho" || limit === promise.epsilon;
  return whole ? [] : [text("privacy.spent_share", { limit, epsilon: promise.epsilon })];
}

// Spends in percent of the limit, which everybody can read.
function spendSeries(found, { text }) {
  const limit = fraction(found.limit) || 1,
    { units, begins, ends } = found;
  const nothing = units.map(() => null),
    percent = found.spent.map((spent) => (100 * fraction(spent)) / limit);
  return [
    {
      name: text("privacy.spent_line"),
      units,
      times: begins?.[0] ? begins.map(toSeconds) : units,
      ends: ends?.[0] ? ends.map(toSeconds) : units.map((unit) => unit + 1),
      estimate: percent,
      low: nothing,
      high: nothing,
      repeated: null,
      unread: null,
      raised: null,
    },
  ];
}

// -- what was checked --------------------------------------------------------------------------------

function verification(card, context) {
  const { api, stream, text, live } = context,
    state = el("div", { "aria-live": "polite" }),
    head = el("div", {});
  card.append(el("h2", { text: text("privacy.verified") }), state, head);
  let timer = null,
    closed = false;
  const update = async () => {
    clearTimeout(timer);
    const [found, newest] = await Promise.all([
      api.get(`${stream.url}/ledger/verification`),
      api.get(`${stream.url}/ledger/head`),
    ]);
    if (closed) return;
    state.replaceChildren(...verdict(found, context));
    head.replaceChildren(...noted(newest, context));
    if (found.state === "running" || found.state === "never") timer = setTimeout(update, AGAIN);
  };
  const quietly = () =>
    update().catch((error) => {
      if (!closed) state.replaceChildren(el("p", { class: "bad", text: error.message }));
    });
  quietly();
  const end = live.follow(stream.name, quietly, { after: stream.newest?.unit });
  return () => {
    closed = true;
    clearTimeout(timer);
    end();
  };
}

function verdict(found, { text, format }) {
  const look = { verified: "good", failed: "bad" }[found.state] ?? "part";
  const parts = [
    el(
      "p",
      {},
      el("span", { class: `tag ${look}`, text: text(`privacy.state.${found.state}`) }),
      found.checked_at
        ? ` ${text("privacy.checked_at", { time: format.moment(found.checked_at), unit: found.unit })}`
        : "",
    ),
  ];
  if (found.problem) parts.push(el("p", { class: "bad", lang: "en", text: found.problem }));
  if (found.state !== "verified") return parts;
  const items = [
    text("privacy.check.links", { count: found.links }),
    text(found.kept ? "privacy.check.kept" : "privacy.check.broken", {
      highest: found.highest,
      limit: found.limit,
    }),
    found.signed_from
      ? text("privacy.check.signed", { unit: found.signed_from })
      : text("privacy.check.unsigned"),
  ];
  parts.push(el("ul", { class: "checks" }, ...items.map((item) => el("li", { text: item }))));
  return parts;
}

function noted({ unit, link, signature }, { text }) {
  if (!link) return [];
  return [
    el("h3", { text: text("privacy.head") }),
    el("p", { text: text("privacy.head_words", { unit }) }),
    copyable(link, { text, label: text("privacy.head_label", { unit }) }),
    ...(signature
      ? [
          el("p", { class: "hint", text: text("privacy.signature") }),
          copyable(signature, { text, label: text("privacy.signature_label") }),
        ]
      : []),
  ];
}

function yourself({ stream, text }) {
  const python = [...connected(stream), "print(stream.verify())"].join("\n");
  return el(
    "section",
    { class: "card" },
    el("h2", { text: text("privacy.yourself") }),
    el("p", { text: text("privacy.yourself_python") }),
    copyable(python, { text, label: text("privacy.python_label") }),
    el("p", { text: text("privacy.yourself_store") }),
    copyable(`penstock ledger verify ${JSON.stringify(`${stream.name.split("/")[0]}.db`)}`, {
      text,
      label: text("privacy.command_label"),
    }),
    el("p", { class: "hint", text: text("privacy.yourself_note") }),
  );
}
