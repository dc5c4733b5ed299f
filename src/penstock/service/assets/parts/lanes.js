// A timeline of alerts: one lane per rule and key, one bar from raising to clearing.
import { toSeconds } from "../format.js";
import { el, svg } from "./dom.js";
import { pairAlerts } from "./timeline_marks.js";

const LANE = 30,
  TOP = 8,
  FOOT = 28,
  MAX_LANES = 24;
const LABEL = 170; // pixels for the time below a line of the grid

/**
 * Alerts as bars: {rule, key, from, to | null, raised, cleared | null}. An alert that was never cleared lasts.
 * @param {object[]} events newest first or oldest first
 */
export function barsOf(events) {
  const time = (event) => (event.begins ? toSeconds(event.begins) : event.unit);
  return pairAlerts(events).map(({ raised, cleared }) => ({
    rule: raised.rule,
    key: raised.key,
    from: time(raised),
    to: cleared && time(cleared),
    raised,
    cleared,
  }));
}

/**
 * Draw bars into an element. Without any, the element stays empty.
 * @param {Element} box
 * @param {ReturnType<typeof barsOf>} bars
 * @param {{text: Function, format: object, from: number, to: number, timed: boolean}} options
 */
export function drawLanes(box, bars, { text, format, from, to, timed }) {
  const names = [...new Set(bars.map((bar) => JSON.stringify([bar.rule, bar.key])))];
  const shown = names.slice(-MAX_LANES),
    height = TOP + LANE * shown.length + FOOT,
    width = Math.max(280, box.clientWidth || 700);
  const left = Math.min(190, width * 0.36),
    right = width - 14,
    span = Math.max(1, to - from);
  const x = (at) => left + ((Math.max(from, Math.min(to, at)) - from) / span) * (right - left);
  const picture = svg("svg", {
    class: "lanes",
    viewBox: `0 0 ${width} ${height}`,
    height,
    role: "img",
    "aria-label": text("alerts.picture", { count: bars.length }),
  });
  const when = (at) => {
    if (!timed) return format.number(at, 0);
    if (span > 3 * 86_400) return format.day(at);
    const whole = format.unit(at, at + (span > 3_600 ? 3_600 : 1)); // day and time
    return span > 86_400 ? whole : whole.split(", ").at(-1);
  };
  const ticks = Math.max(1, Math.floor((right - left) / LABEL) - 1);
  for (let i = 0; i <= ticks; i += 1) {
    const at = from + (i / ticks) * span;
    picture.append(
      svg("path", { class: "lane-grid", d: `M${x(at)} ${TOP}V${height - FOOT}` }),
      svg(
        "text",
        {
          class: "lane-time",
          x: x(at),
          y: height - 8,
          "text-anchor": i === ticks ? "end" : i ? "middle" : "start",
        },
        when(at),
      ),
    );
  }
  shown.forEach((lane, row) => {
    const [rule, key] = JSON.parse(lane),
      y = TOP + row * LANE;
    picture.append(
      svg("path", { class: "lane-line", d: `M${left} ${y + LANE / 2}H${right}` }),
      svg(
        "text",
        { class: "lane-name", x: left - 10, y: y + LANE / 2 + 4, "text-anchor": "end" },
        short(key, rule, left),
      ),
    );
    for (const bar of bars.filter((one) => JSON.stringify([one.rule, one.key]) === lane)) {
      const begin = x(bar.from),
        end = x(bar.to ?? to);
      picture.append(
        svg(
          "rect",
          {
            class: bar.to == null ? "lane-bar is-open" : "lane-bar",
            x: begin,
            y: y + 7,
            width: Math.max(5, end - begin),
            height: LANE - 14,
            rx: 3,
          },
          svg("title", {}, `${rule}, ${key}: ${when(bar.from)}`),
        ),
      );
    }
  });
  box.replaceChildren(picture);
  if (names.length > shown.length)
    box.append(
      el("p", {
        class: "hint",
        text: text("alerts.more_lanes", { count: names.length - shown.length }),
      }),
    );
}

// What fits beside the lanes: the key, and the rule where there is room.
function short(key, rule, room) {
  const letters = Math.floor(room / 7.2),
    whole = `${key} · ${rule}`;
  if (whole.length <= letters) return whole;
  return key.length <= letters ? key : `${key.slice(0, Math.max(3, letters - 1))}…`;
}
