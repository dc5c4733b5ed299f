// Which question a chart asks, and whether the stream can answer it.
import { unitSeconds } from "./ranges.js";

/** Why a stream cannot answer a question; null if it can. */
export function whyNot(stream, question) {
  const found = stream.questions?.find((one) => one.question === question);
  return found ? found.why_not : null;
}

/**
 * Path and parameters of the numbers of one or several keys, or of their sum over a window of
 * units.
 * A stream that releases sums itself has no counts: then its releases are shown as they are.
 * @param {object} stream
 * @param {{window?: number, keys?: string[], together?: boolean, nonnegative?: boolean,
 *   filtered?: boolean, nodes?: boolean}} choice
 */
export function numbersCall(
  stream,
  { window = 1, keys = [], together = false, nonnegative = false, filtered = false, nodes = false },
) {
  const shared = { key: keys, nonnegative, filtered };
  if (whyNot(stream, "counts") && window === 1) return [`${stream.url}/releases`, { key: keys }];
  const question = window > 1 ? "sum" : "counts";
  return [
    `${stream.url}/answers/${question}`,
    { ...shared, together, roll_up: nodes, window: window > 1 ? window : null },
  ];
}

/**
 * The keys with the largest numbers lately; the first keys if they cannot be ranked. A day's sum
 * ranks better than one unit, which at night is mostly noise.
 */
export async function largestKeys(api, stream, count) {
  const k = Math.min(count, stream.keys),
    day = Math.min(stream.units, Math.round(86400 / (unitSeconds(stream) ?? 86400)));
  const window = day > 1 && !whyNot(stream, "sum") ? day : null;
  if (!whyNot(stream, "top")) {
    try {
      const { ranking } = await api.get(`${stream.url}/answers/top`, { k, window });
      return ranking.at(-1).rows.map(({ name }) => name);
    } catch (error) {
      if (error.status !== 422) throw error;
    }
  }
  const { keys } = await api.get(`${stream.url}/keys`, { limit: k });
  return keys.map(({ key }) => key);
}

/** Whether the sum over all keys is cheap enough to be shown unasked, and has an interval. */
export const showsTotal = (stream) =>
  !stream.filtered && !whyNot(stream, "counts") && stream.keys <= 2000;

/** Keys that contain some letters, for a search field. */
export function keyFinder(api, stream, first = []) {
  return async (words) => {
    const { keys } = await api.get(`${stream.url}/keys`, { search: words, limit: 50 });
    const found = keys.map(({ key }) => ({ value: key, name: key }));
    return words ? found : [...first, ...found];
  };
}
