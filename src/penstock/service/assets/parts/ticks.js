// Labels of a time axis in the language of the page and the zone of the stream.

const DAY = 86400;

/**
 * Labels for uPlot: `values` of an axis. Days and years are written where they begin.
 * @param {{language: string, short: Function}} format
 * @param {string | null} zone null if the axis counts units
 */
export function tickLabels(format, zone) {
  if (!zone)
    return (_, splits) => splits.map((at) => (Number.isInteger(at) ? format.short(at) : ""));
  const locale = format.language === "en" ? "en-GB" : format.language;
  const written = (options) => new Intl.DateTimeFormat(locale, { timeZone: zone, ...options });
  const time = written({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const seconds = written({
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
  });
  const day = written({ day: "numeric", month: "short" }),
    month = written({ month: "short" }),
    year = written({ year: "numeric" });
  return (_, splits, __, ___, step) => {
    let lastDay = "",
      lastYear = "";
    return splits.map((at) => {
      const date = new Date(at * 1000),
        ofYear = year.format(date),
        ofDay = day.format(date);
      const newYear = ofYear !== lastYear,
        newDay = ofDay !== lastDay || newYear;
      [lastYear, lastDay] = [ofYear, ofDay];
      if (step >= 365 * DAY) return ofYear;
      if (step >= 28 * DAY)
        return newYear ? `${month.format(date)}\n${ofYear}` : month.format(date);
      if (step >= DAY) return newYear ? `${ofDay}\n${ofYear}` : ofDay;
      const clock = (step < 60 ? seconds : time).format(date);
      return newDay ? `${clock}\n${ofDay}` : clock;
    });
  };
}
