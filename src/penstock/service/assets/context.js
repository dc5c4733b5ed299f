// What every page needs before it can draw: the service, the language, the client, live following.
import { makeApi } from "./api.js";
import { makeFormat } from "./format.js";
import { makeLive } from "./live.js";
import { chooseLanguage, loadTexts } from "./texts.js";

/**
 * @typedef {object} Session
 * @property {ReturnType<typeof makeApi>} api
 * @property {object} service the object of `/v1`
 * @property {string} language
 * @property {(key: string, values?: object) => string} text
 * @property {ReturnType<typeof makeLive>} live
 * @property {(zone: string | null) => ReturnType<typeof makeFormat>} formatIn
 */

/**
 * Texts come first, so that even an error of the service is shown in the reader's language.
 * @param {ReturnType<typeof makeApi>} api
 * @returns {Promise<Session>} `service` is null and `problem` is set if `/v1` does not answer
 */
export async function openSession(api = makeApi()) {
  let service = null,
    problem = null;
  try {
    service = await api.get("/v1");
  } catch (error) {
    problem = error;
  }
  const language = chooseLanguage(service ?? {});
  const text = await loadTexts(language);
  return {
    api,
    service,
    problem,
    language,
    text,
    live: makeLive(api),
    formatIn: (zone) => makeFormat({ language, zone }),
  };
}

/**
 * The context of a view (see the contract of views in docs/how-to/serve.md).
 * @param {Session} session
 * @param {object} parts stream, streams, params, go, keep, title
 */
export function makeContext(session, { stream = null, ...parts }) {
  const { api, service, language, text, live, formatIn } = session;
  return {
    api,
    service,
    language,
    text,
    live,
    format: formatIn(stream?.zone ?? null),
    stream,
    ...parts,
  };
}
