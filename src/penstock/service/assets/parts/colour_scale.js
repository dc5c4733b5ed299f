// One scale of colours for heat map and map: from the page's background to its opposite, so that
// lightness alone carries the number. It works in both themes, in grey, and for colour-blind
// people.
import { css, el } from "./dom.js";

/**
 * @param {[number, number]} ends numbers at both ends of the scale
 * @param {{root?: boolean}} [options] `root`: the square root spreads small numbers out
 */
export function colourScale([least, most], { root = false } = {}) {
  const stops = css("--ramp").split(",").map(toRgb),
    span = most - least || 1;
  const share = (value) => {
    const found = Math.min(1, Math.max(0, (value - least) / span));
    return root ? Math.sqrt(found) : found;
  };
  const rgb = (value) => mixed(stops, share(value));
  return { rgb, share, least, most, value: (at) => least + span * (root ? at * at : at) };
}

/** The colour at a share of a list of colours. */
export function mixed(stops, share) {
  const place = share * (stops.length - 1),
    from = Math.min(Math.floor(place), stops.length - 2),
    part = place - from;
  return stops[from].map((one, at) => Math.round(one + (stops[from + 1][at] - one) * part));
}

/** #rrggbb as three numbers. */
export function toRgb(text) {
  const digits = text.trim().slice(1);
  return [0, 2, 4].map((at) => parseInt(digits.slice(at, at + 2), 16));
}

/** The scale as a picture with numbers, for the legend of a chart. */
export function scaleLegend(scale, { format, label }) {
  const canvas = el("canvas", { class: "ramp", width: 200, height: 1, "aria-hidden": "true" });
  const ctx = canvas.getContext("2d"),
    picture = ctx.createImageData(200, 1);
  for (let x = 0; x < 200; x += 1)
    picture.data.set([...scale.rgb(scale.value(x / 199)), 255], 4 * x);
  ctx.putImageData(picture, 0, 0);
  return el(
    "div",
    { class: "scale" },
    el("span", { text: label }),
    el(
      "div",
      {},
      canvas,
      el(
        "div",
        { class: "ends" },
        ...[0, 0.5, 1].map((at) => el("span", { text: format.number(scale.value(at), 0) })),
      ),
    ),
  );
}
