// Addresses of the dashboard: everything that a page shows stands in the hash, so a link shows it
// again.

/**
 * @typedef {{stream: string | null, view: string, params: URLSearchParams}} Route
 */

/**
 * Read `#/`, `#/s/<stream>` or `#/s/<stream>/<view>?name=value`. Anything else is the overview.
 * @param {string} hash
 * @returns {Route}
 */
export function readHash(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const [, kind, stream, view = ""] = path.split("/");
  const params = new URLSearchParams(query);
  if (kind !== "s" || !stream) return { stream: null, view: "", params };
  return { stream: decoded(stream), view, params };
}

/**
 * The hash of a page. A stream's name is one part of it, so its slashes are encoded.
 * @param {string | null} stream
 * @param {string} [view]
 * @param {Record<string, unknown> | URLSearchParams} [params] null and "" are left out
 */
export function writeHash(stream, view = "", params = {}) {
  if (stream == null) return "#/";
  const query = toParams(params).toString();
  return `#/s/${encodeURIComponent(stream)}${view ? `/${view}` : ""}${query ? `?${query}` : ""}`;
}

/**
 * Parameters without those that say nothing. An array gives one parameter per element.
 * @param {Record<string, unknown> | URLSearchParams} params
 */
export function toParams(params) {
  if (params instanceof URLSearchParams) return params;
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one != null && one !== "" && one !== false) found.append(name, String(one));
    }
  }
  return found;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  } // a broken % stays as it is
}
