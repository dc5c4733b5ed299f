// The logo and the few signs of the dashboard. All are drawn in the colour of the text around them.
import { svg } from "./dom.js";

const WAVE = "c2.3-2.7 4.7-2.7 7 0s4.7 2.7 7 0 4.7-2.7 7 0 4.7 2.7 7 0";
const PATHS = {
  sun: [
    "M12 7.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9",
    "M12 2v2M12 20v2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 1.4",
    "M2 12h2M20 12h2M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4",
  ],
  moon: ["M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z"],
  arrow: ["M5 12h14M13 6l6 6-6 6"],
  close: ["M6 6l12 12M18 6 6 18"],
  shield: [
    "M12 3 4.5 6v5.5c0 4.6 3.1 7.9 7.5 9.5 4.4-1.6 7.5-4.9 7.5-9.5V6z",
    "M8.8 12.2l2.3 2.3 4.2-4.6",
  ],
  check: ["M5 12.5l4.5 4.5L19 7.5"],
};

/** @param {keyof typeof PATHS} name */
export function icon(name) {
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" },
    ...PATHS[name].map((d) => svg("path", { d })),
  );
}

export function logo() {
  return svg(
    "svg",
    { class: "logo", viewBox: "0 0 32 32", "aria-hidden": "true" },
    svg("path", { d: "M6 27V4M26 27V4M3.5 4h25M16 4v5" }),
    svg("path", { class: "leaf", d: "M10 9h12v7H10z" }),
    svg("path", { class: "water", d: `M2 22${WAVE}M2 28${WAVE}` }),
  );
}
