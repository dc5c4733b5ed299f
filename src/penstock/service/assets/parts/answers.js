// From an answer of the API to the series of a chart.
import { toSeconds } from "../format.js";

/**
 * @typedef {object} Series
 * @property {string} name
 * @property {number[]} units
 * @property {number[]} times begin of each unit, seconds since 1970
 * @property {number[]} ends end of each unit
 * @property {(number | null)[]} estimate
 * @property {(number | null)[]} low
 * @property {(number | null)[]} high
 * @property {boolean[] | null} repeated whether a release repeats an earlier one
 * @property {number[] | null} unread how many units of a sum were not read
 * @property {boolean[] | null} raised whether an alert is raised
 */

/**
 * The series of an answer. A thinned one (`points=`) has its own units per series.
 * @returns {Series[]}
 */
export function seriesOf(answer) {
  return answer.series.map((one) => {
    const { units, begins, ends } = one.units ? one : answer;
    return {
      name: one.name,
      units: [...units],
      // Without a calendar, units are times.
      times: begins ? begins.map(toSeconds) : units.map(Number),
      ends: ends ? ends.map(toSeconds) : units.map((unit) => unit + 1),
      estimate: [...one.estimate],
      low: [...(one.low ?? one.estimate.map(() => null))],
      high: [...(one.high ?? one.estimate.map(() => null))],
      repeated: one.repeated ? [...one.repeated] : null,
      unread: one.unread ? [...one.unread] : null,
      raised: one.raised ? [...one.raised] : null,
    };
  });
}

const COLUMNS = [
  "units",
  "times",
  "ends",
  "estimate",
  "low",
  "high",
  "repeated",
  "unread",
  "raised",
];

/**
 * Add the newer units of `more` to `series`, in place, and drop those that begin before `from`.
 * @param {Series[]} series
 * @param {Series[]} more the same names
 * @param {number} [from] seconds since 1970
 */
export function append(series, more, from = -Infinity) {
  const newer = new Map(more.map((one) => [one.name, one]));
  for (const one of series) {
    const found = newer.get(one.name),
      last = one.units.at(-1) ?? -Infinity;
    const start = found ? found.units.findIndex((unit) => unit > last) : -1;
    const cut = Math.max(
      0,
      one.times.findIndex((time) => time >= from),
    );
    for (const column of COLUMNS) {
      if (!one[column]) continue;
      if (start >= 0 && found[column]) one[column].push(...found[column].slice(start));
      if (cut) one[column].splice(0, cut);
    }
  }
  return series;
}

/** The last number of a series that is known, with its interval. */
export function newestOf(series) {
  const at = series.estimate.findLastIndex((value) => value != null);
  return at < 0 ? null : pointOf(series, at);
}

/** Everything about one unit of a series. */
export function pointOf(series, at) {
  return Object.fromEntries([
    ["name", series.name],
    ...COLUMNS.map((column) => [
      { units: "unit", times: "time", ends: "end" }[column] ?? column,
      series[column]?.[at] ?? null,
    ]),
  ]);
}

/** The place of the unit that holds a time; the nearest one if none does. */
export function placeAt(series, time) {
  let low = 0,
    high = series.times.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (series.times[middle] <= time) low = middle;
    else high = middle - 1;
  }
  // In a thinned series, the kept unit may be far before the time: take the nearer neighbour.
  const next = low + 1;
  if (
    next < series.times.length &&
    time >= series.ends[low] &&
    series.times[next] - time < time - series.ends[low]
  )
    return next;
  return low;
}

/** The middle half-width of all known intervals: what ± a reader may expect. */
export function typicalMargin(series) {
  const widths = series.flatMap(({ low, high }) =>
    low.flatMap((value, at) => (value == null || high[at] == null ? [] : [(high[at] - value) / 2])),
  );
  widths.sort((a, b) => a - b);
  return widths.length ? widths[widths.length >> 1] : null;
}

/** Rows of the table behind a chart, newest first: time, then each series with its interval. */
export function tableOf(series, { text, format, zone = true }) {
  const several = series.length > 1,
    repeated = series.some((one) => one.repeated?.some(Boolean));
  const columns = [
    ...(several ? [{ name: text("table.name") }] : []),
    { name: zone ? text("table.begins") : text("table.unit") },
    { name: text("table.estimate"), number: true },
    { name: text("table.low"), number: true },
    { name: text("table.high"), number: true },
    ...(repeated ? [{ name: text("table.repeated") }] : []),
  ];
  const rows = series.flatMap((one) =>
    one.units
      .map((unit, at) => [
        ...(several ? [one.name] : []),
        zone ? format.unit(one.times[at], one.ends[at]) : format.number(unit),
        format.number(one.estimate[at]),
        format.number(one.low[at]),
        format.number(one.high[at]),
        ...(repeated ? [one.repeated?.[at] ? text("table.yes") : text("table.no")] : []),
      ])
      .reverse(),
  );
  return { columns, rows };
}
