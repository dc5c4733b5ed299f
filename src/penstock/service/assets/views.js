// The views of a stream, in the order of their tabs.

/**
 * @typedef {{name: string, title: string, module: string, applies: (stream: object, service:
 *   object) => boolean}} View
 * @type {View[]}
 */
export const STREAM_VIEWS = [
  ["", "time", () => true],
  ["compare", "compare", (stream) => stream.keys > 1],
  ["heat", "heat", (stream) => stream.keys > 1],
  ["areas", "areas", (stream) => stream.hierarchy],
  ["top", "top", (stream) => stream.keys > 1],
  ["map", "map", (_, service) => Boolean(service.map)],
  ["alerts", "alerts", () => true],
  ["privacy", "privacy", () => true],
  ["downloads", "downloads", () => true],
].map(([name, file, applies]) => ({
  name,
  title: `view.${file}`,
  module: `./views/${file}.js`,
  applies,
}));

const OVERVIEW = {
  name: "",
  title: "view.overview",
  module: "./views/overview.js",
  applies: () => true,
};

/** The view of a route. A name that is unknown shows the stream over time. */
export function viewOf({ stream, view }) {
  if (stream == null) return OVERVIEW;
  return STREAM_VIEWS.find(({ name }) => name === view) ?? STREAM_VIEWS[0];
}
