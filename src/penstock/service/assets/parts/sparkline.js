// A small line without axes, for overviews. Colours come from style.css, so it follows the theme.
import { svg } from "./dom.js";

const WIDTH = 300;

/**
 * @param {import("./answers.js").Series} series
 * @param {{height?: number, label: string}} options
 */
export function sparkline(series, { height = 72, label }) {
  const { estimate, low, high } = series,
    count = estimate.length;
  const known = [...estimate, ...low, ...high].filter((value) => value != null);
  const least = Math.min(0, ...known),
    most = Math.max(least + 1, ...known);
  const x = (at) => (count > 1 ? 3 + (at / (count - 1)) * (WIDTH - 6) : WIDTH / 2);
  const y = (value) => 4 + (1 - (value - least) / (most - least)) * (height - 8);
  const corner = (at, value) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
  let line = "",
    pen = "M";
  estimate.forEach((value, at) => {
    if (value == null) {
      pen = "M";
      return;
    }
    line += `${pen}${corner(at, value)}`;
    pen = "L";
  });
  const inside = estimate.flatMap((_, at) => (low[at] == null || high[at] == null ? [] : [at]));
  const band =
    inside.length > 1
      ? `M${inside.map((at) => corner(at, high[at])).join("L")}L${inside
          .toReversed()
          .map((at) => corner(at, low[at]))
          .join("L")}Z`
      : "";
  const last = estimate.findLastIndex((value) => value != null);
  return svg(
    "svg",
    {
      class: "sparkline",
      viewBox: `0 0 ${WIDTH} ${height}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": label,
    },
    least < 0 && svg("path", { class: "zero", d: `M0 ${y(0)}H${WIDTH}` }),
    svg("path", { class: "band", d: band }),
    svg("path", { class: "line", d: line }),
    last >= 0 && svg("path", { class: "end", d: `M${corner(last, estimate[last])}h0.01` }),
  );
}
