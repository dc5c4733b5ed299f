// Everything that is published, to take away: exact addresses, and what to type to read them.
import { hasToken } from "../api.js";
import { pills } from "../parts/controls.js";
import { connected, copyable, TOKEN_IN_PYTHON } from "../parts/copy.js";
import { el, newId } from "../parts/dom.js";

const FORMATS = ["csv", "parquet", "arrow", "json"];
const MAX_NUMBERS = 100_000; // what the API gives in one answer
const STRETCHES = [24, 168, 720, 8760]; // units, where they have no length
const LENGTHS = [60, 3_600, 86_400, 7 * 86_400, 30 * 86_400]; // seconds

export async function show(element, context) {
  element.append(
    el(
      "div",
      { class: "stack" },
      el("p", { class: "lead", text: context.text("downloads.lead") }),
      numbers(context),
      oneRelease(context),
      ledger(context),
      whole(context),
    ),
  );
  return () => {};
}

const absolute = (address) => new URL(address, location.origin).href;

function field(name, control) {
  control.id ||= newId("field");
  return el("p", { class: "field" }, el("label", { for: control.id, text: name }), control);
}

// -- numbers: a question, a stretch of time, a format --------------------------------------------------

function numbers(context) {
  const { api, stream, text, format } = context,
    units = stream.units ?? 0;
  const wish = {
    what: "releases",
    window: "",
    last: Math.min(units, fitting(stream)),
    format: "csv",
  };
  const askable = (stream.questions ?? []).filter(
    (one) => !one.why_not && ["sum", "top"].includes(one.question),
  );
  const what = el(
    "select",
    {},
    el("option", { value: "releases", text: text("downloads.releases") }),
    ...askable.map(({ question }) =>
      el("option", { value: question, text: text(`downloads.${question}`) }),
    ),
  );
  const window = el("input", {
    type: "text",
    value:
      stream.seconds && 86_400 / stream.seconds >= 2 && units * stream.seconds >= 86_400
        ? "1d"
        : "2",
    size: 6,
    inputmode: "text",
  });
  const last = el("input", {
    type: "number",
    min: 1,
    max: Math.max(1, units),
    value: wish.last,
    size: 8,
  });
  const quick = el(
    "div",
    { class: "quick" },
    ...stretches(stream)
      .filter((number) => number < units)
      .concat(units)
      .map((number) =>
        el("button", {
          type: "button",
          class: "button quiet",
          on: {
            click: () => {
              last.value = number;
              update();
            },
          },
          text:
            number === units
              ? text("downloads.all_units", { count: units })
              : stream.seconds
                ? format.duration(number * stream.seconds)
                : text("downloads.units", { count: number }),
        }),
      ),
  );
  const windowField = field(text("downloads.window"), window),
    warning = el("p", { class: "hint warning", role: "status" });
  const links = result(context);
  const update = () => {
    wish.what = what.value;
    windowField.hidden = wish.what !== "sum";
    const path =
      wish.what === "releases" ? `${stream.url}/releases` : `${stream.url}/answers/${wish.what}`;
    const params = { last: last.value || 1, window: wish.what === "sum" ? window.value : null };
    const many = (Number(last.value) || 1) * (wish.what === "top" ? 1 : stream.keys);
    warning.textContent =
      many > MAX_NUMBERS
        ? text("downloads.too_many", { count: many, most: fitting(stream) })
        : text("downloads.size", { count: many });
    links.show(api.url(`${path}.${wish.format}`, params), wish.format);
  };
  for (const control of [what, window, last]) control.addEventListener("input", update);
  const card = el(
    "section",
    { class: "card" },
    el("h2", { text: text("downloads.numbers") }),
    el("p", { text: text("downloads.numbers_lead") }),
    el(
      "div",
      { class: "form" },
      field(text("downloads.what"), what),
      windowField,
      field(text("downloads.last"), last),
    ),
    quick,
    formats(context, "csv", (chosen) => {
      wish.format = chosen;
      update();
    }),
    warning,
    links.node,
  );
  update();
  return card;
}

// Numbers of units that people ask for: an hour, a day, a week.
function stretches({ seconds }) {
  if (!seconds) return STRETCHES;
  return LENGTHS.map((length) => length / seconds).filter(
    (units) => Number.isInteger(units) && units > 1,
  );
}

const fitting = (stream) => Math.max(1, Math.floor(MAX_NUMBERS / Math.max(1, stream.keys)));

const formats = ({ text }, value, change) =>
  pills({
    label: text("downloads.format"),
    options: FORMATS.map((name) => [name, text(`downloads.format.${name}`)]),
    value,
    change,
  });

// The exact address with a button to download, and the snippets that read it.
function result({ text }, name = "penstock") {
  const link = el("a", { class: "button", download: "" }),
    address = copyable("", { text, label: text("downloads.address") });
  const curl = copyable("", { text, label: text("downloads.curl") }),
    python = copyable("", { text, label: text("downloads.polars") });
  const sheet = copyable("", { text, label: text("downloads.sheet") });
  const sheets = el(
    "div",
    {},
    el("h3", { text: text("downloads.sheet") }),
    el("p", { text: text("downloads.sheet_words") }),
    sheet,
  );
  const node = el(
    "div",
    { class: "result" },
    el("p", {}, link),
    address,
    el(
      "details",
      {},
      el("summary", { text: text("downloads.snippets") }),
      hasToken() && el("p", { text: text("downloads.token") }),
      el("h3", { text: text("downloads.curl") }),
      curl,
      el("h3", { text: text("downloads.polars") }),
      python,
      sheets,
    ),
  );
  const show = (path, format) => {
    const url = absolute(path),
      file = `${name}.${format}`,
      reader = { csv: "read_csv", parquet: "read_parquet", arrow: "read_ipc_stream" }[format];
    link.href = path;
    link.download = file;
    link.textContent = text("downloads.download", { format: text(`downloads.format.${format}`) });
    address.change(url);
    curl.change(onCommandLine(url, file));
    python.change(inPython(url, reader));
    sheets.hidden = format !== "csv" || hasToken(); // a spreadsheet sends no token
    sheet.change(`=IMPORTDATA("${url}")`);
  };
  return { node, show };
}

// A token among the arguments of a command would be visible to all users of the computer.
function onCommandLine(url, file) {
  const command = `-o ${file} '${url.replaceAll("'", "%27")}'`;
  return hasToken()
    ? `printf 'Authorization: Bearer %s' "$PENSTOCK_TOKEN" | curl --header @- ${command}`
    : `curl ${command}`;
}

// Polars itself would ask by HEAD first, and could not send the token.
function inPython(url, reader) {
  const signed = hasToken(),
    address = JSON.stringify(url);
  return [
    `import ${[!reader && "json", signed && "os", "urllib.request"].filter(Boolean).join(", ")}`,
    ...(reader ? ["import polars as pl"] : []),
    "",
    ...(signed
      ? [
          `headers = {"Authorization": "Bearer " + ${TOKEN_IN_PYTHON}}`,
          `request = urllib.request.Request(${address}, headers=headers)`,
        ]
      : [`request = ${address}`]),
    "content = urllib.request.urlopen(request).read()",
    reader ? `table = pl.${reader}(content)` : "answer = json.loads(content)",
  ].join("\n");
}

// -- one release, the ledger, everything ---------------------------------------------------------------

function oneRelease(context) {
  const { stream, text } = context,
    newest = stream.newest?.unit ?? 1;
  const unit = el("input", {
    type: "number",
    min: stream.first_unit ?? 1,
    max: newest,
    value: newest,
  });
  const wish = { format: "json" },
    links = result(context, `unit-${newest}`);
  const update = () =>
    links.show(
      `${stream.url}/releases/${Math.max(1, Number(unit.value) || 1)}.${wish.format}`,
      wish.format,
    );
  unit.addEventListener("input", update);
  const card = el(
    "section",
    { class: "card" },
    el("h2", { text: text("downloads.one") }),
    el("p", { text: text("downloads.one_lead") }),
    el("div", { class: "form" }, field(text("downloads.unit"), unit)),
    formats(context, "json", (chosen) => {
      wish.format = chosen;
      update();
    }),
    links.node,
  );
  update();
  return card;
}

function ledger(context) {
  const { api, stream, text } = context,
    wish = { format: "csv" },
    links = result(context, "ledger");
  const update = () => links.show(api.url(`${stream.url}/ledger.${wish.format}`), wish.format);
  const card = el(
    "section",
    { class: "card" },
    el("h2", { text: text("downloads.ledger") }),
    el("p", { text: text("downloads.ledger_lead") }),
    formats(context, "csv", (chosen) => {
      wish.format = chosen;
      update();
    }),
    links.node,
  );
  update();
  return card;
}

function whole({ stream, service, text }) {
  const python = [
    ...connected(stream),
    "table = stream.to_polars()",
    "print(next(stream.follow()))",
  ].join("\n");
  return el(
    "section",
    { class: "card" },
    el("h2", { text: text("downloads.python") }),
    el("p", { text: text("downloads.python_lead") }),
    copyable(python, { text, label: text("downloads.python") }),
    el(
      "p",
      {},
      text("downloads.openapi"),
      " ",
      el("a", { href: service.openapi_url }, el("code", { text: absolute(service.openapi_url) })),
    ),
  );
}
