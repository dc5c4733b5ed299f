// The client of the read API. Every number of the dashboard comes through `get`.
import { toParams } from "./router.js";

const MAX_TRIES = 3;
const MAX_SECONDS_TO_WAIT = 10;

/** An answer that is no success. `message` is the server's sentence, which says what to do. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 if there was no answer at all
   * @param {string} message
   * @param {string | null} nearest the nearest known name, if a name was unknown
   */
  constructor(status, message, nearest = null) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.nearest = nearest;
  }
}

/**
 * @param {{fetch?: typeof fetch, token?: () => string | null}} [parts] a test gives its own
 */
export function makeApi({ fetch: ask = (...all) => fetch(...all), token = storedToken } = {}) {
  const headers = (more) => ({
    ...more,
    ...(token() ? { Authorization: `Bearer ${token()}` } : {}),
  });

  /** The address of an answer, to call it or to show it. */
  const url = (path, params = {}) => {
    const query = toParams(params).toString();
    return query ? `${path}${path.includes("?") ? "&" : "?"}${query}` : path;
  };

  /** The path of a stream: the parts of its name are encoded one by one. */
  const streamPath = (name) => `/v1/streams/${name.split("/").map(encodeURIComponent).join("/")}`;

  /** What comes from the service. If the connection breaks, there was no answer. */
  const arrived = async (promise) => {
    try {
      return await promise;
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, error.message);
    }
  };

  /** A successful answer. When the service is busy, wait as long as it says. */
  const success = async (address, options) => {
    for (let tried = 1; ; tried += 1) {
      const response = await arrived(ask(address, options));
      if (response.ok) return response;
      const wait = Number(response.headers.get("Retry-After") ?? NaN);
      if (response.status === 429 && tried < MAX_TRIES && wait <= MAX_SECONDS_TO_WAIT) {
        await pause(wait * 1000);
        continue;
      }
      throw await problem(response);
    }
  };

  /**
   * The parsed JSON of an address.
   * @param {string} path
   * @param {Record<string, unknown> | URLSearchParams} [params]
   * @param {{signal?: AbortSignal}} [options]
   * @throws {ApiError}
   */
  const get = async (path, params = {}, { signal } = {}) => {
    const accepted = headers({ Accept: "application/json" });
    const response = await success(url(path, params), { headers: accepted, signal });
    return arrived(response.json());
  };

  /**
   * The content of an address as it is, with the name that the service gives it.
   * @param {string} address
   * @returns {Promise<{content: Blob, name: string}>}
   * @throws {ApiError}
   */
  const file = async (address) => {
    const response = await success(address, { headers: headers({}) });
    const given = response.headers.get("Content-Disposition") ?? "";
    const [, name] = /filename="([^"]*)"/.exec(given) ?? [];
    const [path] = address.split(/[?#]/);
    return { content: await arrived(response.blob()), name: name || path.split("/").pop() };
  };

  return { get, file, url, streamPath, headers };
}

/** Keep the read token for this tab only; an empty text forgets it. */
export function keepToken(token) {
  try {
    if (token) sessionStorage.setItem("token", token);
    else sessionStorage.removeItem("token");
  } catch {
    /* without storage, the reader is asked again after a reload */
  }
  kept = token || null;
}

/** Whether this tab has a token already, so that a 401 means that it is wrong. */
export const hasToken = () => Boolean(storedToken());

let kept = null;

function storedToken() {
  if (kept) return kept;
  try {
    return sessionStorage.getItem("token");
  } catch {
    return null;
  }
}

async function problem(response) {
  try {
    const { error, nearest = null } = await response.json();
    return new ApiError(response.status, String(error), nearest);
  } catch {
    // an answer of something in between, such as a proxy
    return new ApiError(response.status, response.statusText);
  }
}

const pause = (milliseconds) =>
  new Promise((done) => {
    setTimeout(done, milliseconds);
  });
