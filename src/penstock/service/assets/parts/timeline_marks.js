// Events and alerts of a stream as marks of a chart.
import { toSeconds, zonedSeconds } from "../format.js";
import { newestAlerts } from "./newest_alerts.js";

/** Events of the stream's pipeline. */
export function eventMarks(stream) {
  return (stream.events ?? []).map(({ at, text }) => ({
    time: zonedSeconds(at, stream.zone),
    text,
    kind: "event",
  }));
}

/**
 * Alerts, each from raised to cleared. Alerts of other keys than those shown are left out.
 * @param {string[] | null} keys null for all
 */
export async function alertMarks(api, stream, keys, text) {
  if (!(await hasRules(api, stream))) return [];
  let alerts = [];
  try {
    alerts = (await newestAlerts(api, stream)).events;
  } catch (error) {
    if (error.name !== "ApiError") throw error; // a chart without its alerts is better than none
  }
  return pairAlerts(alerts.filter(({ key }) => !keys || key == null || keys.includes(key))).map(
    ({ raised, cleared }) => ({
      time: toSeconds(raised.begins),
      end: cleared ? toSeconds(cleared.begins) : null,
      kind: "alert",
      text:
        raised.key == null ? raised.rule : text("alert.of", { rule: raised.rule, key: raised.key }),
    }),
  );
}

/**
 * Whether alerts can come at all. Asked once per stream, since rules change with the pipeline
 * only.
 */
async function hasRules(api, stream) {
  if (!known.has(stream.url)) {
    known.set(
      stream.url,
      api.get(`${stream.url}/alerts/rules`).then(
        ({ rules }) => rules.length > 0,
        () => false,
      ),
    );
  }
  return known.get(stream.url);
}

const known = new Map();

/** Each raised alert with the one that clears it. */
export function pairAlerts(alerts) {
  const open = new Map(),
    found = [];
  for (const alert of alerts.toSorted((one, other) => one.unit - other.unit)) {
    const name = JSON.stringify([alert.rule, alert.key]);
    if (alert.state === "raised") {
      const pair = { raised: alert, cleared: null };
      open.set(name, pair);
      found.push(pair);
    } else if (open.has(name)) {
      open.get(name).cleared = alert;
      open.delete(name);
    }
  }
  return found;
}
