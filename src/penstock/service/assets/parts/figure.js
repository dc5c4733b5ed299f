// The frame of every chart: heading, drawing, "how sure is this?", the API call, the table behind
// it.
import { el, newId } from "./dom.js";

const MAX_ROWS = 1000;

/**
 * @typedef {object} FigureOptions
 * @property {Function} text texts of the language
 * @property {string} title
 * @property {string} [sub] one line under the title
 * @property {string | string[]} [note] sentences of "how sure is this?"
 * @property {string} [call] the address of the API that gives the numbers
 * @property {() => {columns: {name: string, number?: boolean}[], rows: (string | Node)[][]}}
 *   [table]
 *   made when the reader opens it
 * @property {boolean} [csv] whether the call has a form as CSV, default true
 * @property {Node[]} [tools] controls beside the title
 * @property {boolean} [small] one of many: everything under the chart is behind one line
 * @property {string} [id]
 */

/**
 * Put a figure into an element. `drawing` is the place for the chart, and `update` changes the
 * rest.
 * @param {Element} element
 * @param {FigureOptions} options
 */
export function figure(element, options) {
  const { text } = options,
    id = newId("figure");
  const heading = el("h2", { id }),
    sub = el("p", { class: "sub" }),
    drawing = el("div", { class: "drawing" });
  const note = el("div", { class: "sure" }),
    call = el("p", { class: "call" });
  const tools = el("div", { class: "tools" }, ...(options.tools ?? []));
  const body = el("div", {
    class: "wide",
    role: "region",
    tabindex: "0",
    "aria-labelledby": `${id} ${id}-table`,
  });
  const details = el(
    "details",
    { class: "behind", on: { toggle: () => fill() } },
    el("summary", { id: `${id}-table`, text: text("figure.table") }),
    body,
  );
  const caption = options.small
    ? el(
        "figcaption",
        {},
        el("details", {}, el("summary", { text: text("figure.more") }), note, call, details),
      )
    : el("figcaption", {}, note, call, details);
  const node = el(
    "figure",
    {
      class: options.small ? "card figure small" : "card figure",
      "aria-labelledby": id,
      id: options.id,
    },
    el("div", { class: "head" }, el("div", {}, heading, sub), tools),
    drawing,
    caption,
  );
  let shown = {},
    waiting = null;

  const fill = () => {
    waiting = null;
    if (!details.open || !shown.table) return;
    const { columns, rows } = shown.table();
    const more =
      rows.length > MAX_ROWS
        ? el("p", { class: "hint" }, text("figure.rows", { shown: MAX_ROWS, count: rows.length }))
        : null;
    body.replaceChildren(
      el(
        "table",
        {},
        el("caption", { class: "unseen", text: heading.textContent }),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ...columns.map((column) =>
              el("th", { scope: "col", class: column.number && "number", text: column.name }),
            ),
          ),
        ),
        el(
          "tbody",
          {},
          ...rows
            .slice(0, MAX_ROWS)
            .map((row) =>
              el(
                "tr",
                {},
                ...row.map((cell, at) =>
                  el(
                    at ? "td" : "th",
                    { scope: at ? null : "row", class: columns[at].number && "number" },
                    cell,
                  ),
                ),
              ),
            ),
        ),
      ),
      more ?? "",
    );
  };

  const update = (changes) => {
    shown = { ...shown, ...changes };
    if (changes.title != null && changes.title !== "") heading.textContent = changes.title;
    sub.textContent = shown.sub ?? "";
    sub.hidden = !shown.sub;
    const sentences = [shown.note ?? []].flat();
    note.hidden = !sentences.length;
    note.replaceChildren(
      el("h3", { text: text("figure.sure") }),
      el("p", { text: sentences.join(" ") }),
    );
    call.hidden = !shown.call;
    if (shown.call) showCall(call, shown.call, text, shown.csv ?? true);
    details.hidden = !shown.table;
    // Live charts change often; the open table is written again when the page has time.
    if (details.open && !waiting) waiting = setTimeout(fill, 200);
  };

  update(options);
  element.append(node);
  return { node, heading, drawing, tools, update, sub: (words) => update({ sub: words }) };
}

/** The links stay the same elements, so that the focus of a keyboard stays on them. */
function showCall(place, address, text, table) {
  if (!place.children.length) {
    place.append(
      el("span", { text: text("figure.call") }),
      " ",
      el("a", { class: "address" }, el("code")),
      " ",
      el("a", { class: "as", text: text("figure.csv") }),
    );
  }
  const [path, query] = address.split(/\?(.*)/s);
  const [link, csv] = place.querySelectorAll("a");
  link.setAttribute("href", address);
  link.firstChild.textContent = readable(address);
  csv.setAttribute("href", `${path}.csv${query ? `?${query}` : ""}`);
  csv.hidden = !table;
}

/** As people read it: encoded letters written out. The link itself keeps the encoding. */
function readable(address) {
  try {
    return decodeURIComponent(address.replaceAll("+", " "));
  } catch {
    return address;
  }
}
