// Ranked numbers as bars, each with its interval. The list itself is the table for screen readers.
import { el, svg } from "./dom.js";

const WIDTH = 1000,
  HEIGHT = 20;

/**
 * @typedef {object} Bar
 * @property {string} name
 * @property {number | null} estimate
 * @property {number | null} low
 * @property {number | null} high
 * @property {string | null} [href]
 * @property {string | null} [badge] a short mark, such as "sure"
 * @property {string | null} [hint] what the mark means
 * @property {string | null} [more] a line under the name
 */

/**
 * @param {Bar[]} rows
 * @param {{format: object, text: Function, label: string, ranked?: boolean}} context
 */
export function barList(rows, { format, text, label, ranked = true }) {
  const known = rows
    .flatMap(({ estimate, low, high }) => [estimate, low, high])
    .filter((value) => value != null);
  const least = Math.min(0, ...known),
    most = Math.max(least + 1, ...known);
  const x = (value) => ((value - least) / (most - least)) * WIDTH;
  return el(
    "ol",
    { class: "bars", "aria-label": label },
    ...rows.map((row, place) =>
      el(
        "li",
        {},
        el("span", { class: "rank", text: ranked ? String(place + 1) : "" }),
        el(
          "span",
          { class: "name" },
          row.href ? el("a", { href: row.href, text: row.name }) : row.name,
          row.more && el("small", { text: row.more }),
        ),
        el(
          "span",
          { class: "badge-place" },
          row.badge && el("span", { class: "badge", title: row.hint, text: row.badge }),
        ),
        el(
          "span",
          { class: "amount" },
          el("b", { text: format.number(row.estimate) }),
          el("small", {
            text: row.low == null ? text("bars.unknown") : format.margin(row.low, row.high),
          }),
          el("span", {
            class: "unseen",
            text:
              row.low == null
                ? ""
                : text("chart.interval", {
                    low: format.number(row.low),
                    high: format.number(row.high),
                  }),
          }),
        ),
        picture(row, x),
      ),
    ),
  );
}

function picture({ estimate, low, high }, x) {
  const middle = HEIGHT / 2,
    from = Math.min(x(0), x(estimate ?? 0)),
    to = Math.max(x(0), x(estimate ?? 0));
  return svg(
    "svg",
    {
      class: "bar",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    },
    svg("rect", {
      class: "amount",
      x: from,
      y: 3,
      width: Math.max(1, to - from),
      height: HEIGHT - 6,
    }),
    low != null &&
      high != null &&
      svg("path", {
        class: "whisker",
        d: `M${x(low)} ${middle}H${x(high)}M${x(low)} ${middle - 6}v12M${x(high)} ${middle - 6}v12`,
      }),
  );
}

/** Whether a link of the list has the focus of a keyboard: then the list must not be replaced. */
export const isRead = (place) => place.querySelector("a:focus-visible") != null;
