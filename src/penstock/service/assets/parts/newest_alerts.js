// The newest alerts of a stream. The API gives alerts in order of units, page by page.

const MAX_ALERTS = 500;
const STRETCH = 10_000; // units that are looked at

/**
 * @param {object} api
 * @param {object} stream
 * @param {number} [unit] the newest unit
 * @returns {Promise<{events: object[], unit: number}>} `unit` is the newest one that all rules have
 *   seen
 */
export async function newestAlerts(api, stream, unit = stream.newest?.unit ?? 1) {
  const from = Math.max(stream.first_unit ?? 1, unit - STRETCH + 1);
  let events = [],
    next = api.url(`${stream.url}/alerts`, { from }),
    seen = null;
  while (next) {
    const answer = await api.get(next);
    events = [...events, ...answer.alerts].slice(-MAX_ALERTS);
    seen = answer.unit;
    next = answer.next;
  }
  return { events, unit: seen ?? Infinity };
}
