// Stretches of time and window lengths that fit a stream: what its controls offer and send.

const HOUR = 3600,
  DAY = 24 * HOUR;
const RANGES = [
  ["minute", 60],
  ["hour", HOUR],
  ["day", DAY],
  ["week", 7 * DAY],
  ["month", 30 * DAY],
  ["year", 365 * DAY],
];
const WINDOWS = [
  1,
  5,
  10,
  15,
  30,
  60,
  300,
  600,
  900,
  1800,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
  2 * DAY,
  3 * DAY,
  7 * DAY,
  14 * DAY,
  30 * DAY,
];
const UNIT_WINDOWS = [1, 2, 3, 5, 7, 10, 14, 20, 30];
const READABLE_UNITS = 400;
const LEAST_UNITS = 6; // a shorter stretch is no chart

/** Above this many numbers of one series, the server thins it out. */
export const MAX_POINTS = 1500;
const POINTS = 1000;

/**
 * How long a unit is, in seconds; null for months. A day has 86,400 here: where clocks change,
 * the API gives no length, and names of stretches need none that is exact.
 * @param {{seconds?: number | null, every?: string | null}} stream
 */
export function unitSeconds({ seconds, every }) {
  if (seconds) return seconds;
  const [, count, letter] = /^(\d+)(d|w)$/.exec(every ?? "") ?? [];
  return count ? Number(count) * (letter === "w" ? 7 * DAY : DAY) : null;
}

/**
 * The stretches to choose from: [name, number of units]; "all" is always there.
 * @param {{seconds: number | null, units: number}} stream
 * @returns {[string, number | null][]}
 */
export function rangesOf(stream) {
  const { units } = stream,
    seconds = unitSeconds(stream);
  const found = seconds
    ? RANGES.map(([name, length]) => [name, Math.round(length / seconds)])
    : [
        ["units30", 30],
        ["units100", 100],
        ["units1000", 1000],
      ];
  return [...found.filter(([, count]) => count >= LEAST_UNITS && count < units), ["all", null]];
}

/**
 * The stretch to begin with: the longest one in which a reader can still tell units apart. A stream
 * of seconds is watched rather than read: all of it is shown while it is short.
 */
export function firstRange(stream) {
  const ranges = rangesOf(stream).filter(([, count]) => count != null);
  const brief = (unitSeconds(stream) ?? DAY) < 60 && stream.units <= MAX_POINTS;
  if (!ranges.length || brief) return "all";
  return (ranges.findLast(([, count]) => count <= READABLE_UNITS) ?? ranges[0])[0];
}

/**
 * Parameters that choose these units.
 * @param {object} stream
 * @param {{range: string, from?: string, to?: string}} choice `from` and `to` for the range "dates"
 */
export function rangeParams(stream, { range, from, to }, window = 1) {
  if (range === "dates" && (from || to)) return { from: from || "1", to, points: POINTS };
  const known = new Map(rangesOf(stream)),
    count = known.get(range) ?? null;
  // A sum needs the units before it, so the first of all units have none.
  const units = Math.min(count ?? Infinity, Math.max(1, stream.units - window + 1));
  return units > MAX_POINTS ? { last: units, points: POINTS } : { last: units };
}

/** How far back a stretch goes that moves on with the newest unit, in seconds; null if it stays. */
export function rolling(stream, { range }) {
  const count = new Map(rangesOf(stream)).get(range),
    seconds = unitSeconds(stream);
  return count && seconds ? count * seconds : null;
}

/**
 * The stops of the window slider, from one unit to a month: numbers of units.
 * @param {{seconds: number | null, units: number}} stream
 */
export function windowsOf(stream) {
  const { units } = stream,
    seconds = unitSeconds(stream);
  const longest = Math.max(1, Math.floor(units / 2));
  const stops = seconds
    ? WINDOWS.filter((length) => length >= seconds && length % seconds === 0).map(
        (length) => length / seconds,
      )
    : UNIT_WINDOWS;
  return [...new Set([1, ...stops])].filter((count) => count <= longest);
}

/** The name of a window: 24 units of an hour are 1 day. */
export function windowName(count, stream, { text, format }) {
  const seconds = unitSeconds(stream);
  return seconds ? format.duration(count * seconds) : text("promise.units", { count });
}

/** What numbers are counted per: "hour", "6 hours"; a month has the API's own word. */
export function eachName(stream, { format }) {
  const seconds = unitSeconds(stream);
  return seconds ? format.each(seconds) : stream.every_words;
}

/** The place of the stop that is nearest to a number of units. */
export function nearestStop(stops, count) {
  let best = 0;
  stops.forEach((stop, place) => {
    if (Math.abs(stop - count) < Math.abs(stops[best] - count)) best = place;
  });
  return best;
}
