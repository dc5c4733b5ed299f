// Numbers, intervals, times and durations, as people of a language write them.

const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

/**
 * @param {{language?: string, zone?: string | null}} [options] the zone of the stream; times are
 *   in it
 */
export function makeFormat({ language = "en", zone = null } = {}) {
  // British dates for English: day before month, a clock of 24 hours.
  const locale = language === "en" ? "en-GB" : language;
  const known = new Map();
  const dates = (options) => {
    const name = JSON.stringify(options);
    if (!known.has(name)) {
      known.set(name, new Intl.DateTimeFormat(locale, { timeZone: zone ?? "UTC", ...options }));
    }
    return known.get(name);
  };
  const numbers = [0, 1, 2, 3].map(
    (digits) => new Intl.NumberFormat(language, { maximumFractionDigits: digits }),
  );
  const compact = new Intl.NumberFormat(language, {
    notation: "compact",
    maximumFractionDigits: 1,
  });

  /** A number with as many decimals as its size deserves. `null` is an en dash. */
  const number = (value, digits = null) => {
    if (value == null || !Number.isFinite(Number(value))) return "–";
    const x = Number(value),
      size = Math.abs(x);
    const places = digits ?? (Number.isInteger(x) || size >= 100 ? 0 : size >= 1 ? 1 : 2);
    const written = numbers[places].format(x).replace("-", "−");
    return /[1-9]/.test(written) ? written : written.replace("−", ""); // no negative zero
  };

  /** For an axis: 12 K, 3.4 M. */
  const short = (value) =>
    Math.abs(value) < 10_000 ? number(value) : compact.format(value).replace("-", "−");

  /** `low` to `high`; empty if the interval is not known. */
  const interval = (low, high) =>
    low == null || high == null ? "" : `${number(low)} – ${number(high)}`;

  /** Half the width of an interval, as ± 12; empty if it is not known. */
  const margin = (low, high) =>
    low == null || high == null ? "" : `±\u00a0${number((high - low) / 2)}`;

  /** 0.95 as 95 %. */
  const percent = (share) =>
    new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 })
      .format(Number(share))
      .replace(/\s?%/, "\u202f%");

  /** The name of a unit: its date, and the time of day if it is shorter than a day. */
  const unit = (begins, ends = null) => {
    const start = toDate(begins),
      seconds = ends == null ? 3600 : (toDate(ends) - start) / 1000;
    const day = { weekday: "short", day: "numeric", month: "short", year: "numeric" };
    if (seconds >= 72_000) return dates(day).format(start).replace(",", "");
    const time = {
      hour: "2-digit",
      minute: "2-digit",
      hourCycle: "h23",
      ...(seconds < 60 ? { second: "2-digit" } : {}),
    };
    return `${dates(day).format(start).replace(",", "")}, ${dates(time).format(start)}`;
  };

  /** A point in time, in the stream's zone. */
  const moment = (at) => unit(at, toDate(at).getTime() / 1000 + 60);

  const day = (at) => dates({ day: "numeric", month: "short", year: "numeric" }).format(toDate(at));

  /** Both ends of a stretch of time: days, or times of day if it lies within one. */
  const ends = (from, to) => {
    if (day(from) !== day(to)) return [day(from), day(to)];
    const clock = dates({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    return [from, to].map((at) => clock.format(toDate(at)));
  };

  /** 86400 as 1 day, 5400 as 90 minutes: the largest unit that divides it. */
  const duration = (seconds) => {
    const [name, length] =
      UNITS.find(([, size]) => seconds >= size && Number.isInteger(seconds / size)) ?? UNITS[3];
    return new Intl.NumberFormat(language, {
      style: "unit",
      unit: name,
      unitDisplay: "long",
      maximumFractionDigits: 1,
    }).format(seconds / length);
  };

  /** What something is counted per: "hour", or "6 hours". */
  const each = (seconds) => {
    const [name, length] = UNITS.find(([, size]) => seconds === size) ?? [];
    if (!length) return duration(seconds);
    const parts = new Intl.NumberFormat(language, {
      style: "unit",
      unit: name,
      unitDisplay: "long",
    }).formatToParts(1);
    return parts.find(({ type }) => type === "unit").value.trim();
  };

  return {
    number,
    short,
    interval,
    margin,
    percent,
    unit,
    moment,
    day,
    ends,
    duration,
    each,
    zone,
    language,
  };
}

/** @param {string | number | Date} at text in ISO form, or seconds since 1970 */
export function toDate(at) {
  return at instanceof Date ? at : new Date(typeof at === "number" ? at * 1000 : at);
}

/** Seconds since 1970 of a text in ISO form. */
export const toSeconds = (text) => Date.parse(text) / 1000;

/**
 * Seconds since 1970 of a time that may be local in a zone, such as "2026-03-01T18:00".
 * @param {string} text
 * @param {string | null} zone
 */
export function zonedSeconds(text, zone) {
  const local = /T|\s/.test(text) ? text : `${text}T00:00`;
  if (/(Z|[+-]\d\d:?\d\d)$/i.test(local) || !zone) return toSeconds(local);
  const wanted = Date.parse(`${local}Z`); // as if the zone were UTC; then move by its offset there
  const shown = (at) => {
    const part = Object.fromEntries(
      new Intl.DateTimeFormat("en", {
        timeZone: zone,
        hourCycle: "h23",
        year: "numeric",
        month: "numeric",
        day: "numeric",
        hour: "numeric",
        minute: "numeric",
        second: "numeric",
      })
        .formatToParts(at)
        .map(({ type, value }) => [type, Number(value)]),
    );
    return Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second);
  };
  let at = wanted - (shown(wanted) - wanted);
  at = wanted - (shown(at) - at); // once more, where clocks changed in between
  return at / 1000;
}
