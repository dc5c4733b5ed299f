// The promise of a stream in one line, from its exact amounts, in the language of the page.

/** The name of a stream as a title: the parts of a view's name stand side by side. */
export const titleOf = (name) => name.split("/").join(" · ");

/**
 * One sentence: what is hidden about a person, and within which stretch of time.
 * @param {object} stream as the API describes it
 */
export function promiseLine(stream, { text, format }) {
  const { promise } = stream;
  const values = {
    epsilon: promise.epsilon,
    delta: promise.delta,
    length: windowWords(stream, { text, format }),
    each: promise.window_seconds
      ? format.each(promise.window_seconds)
      : windowWords(stream, { text, format }),
  };
  if (promise.horizon != null) return text("promise.always", values);
  return text(Number(promise.window) === 1 ? "promise.unit" : "promise.window", values);
}

/** How long the window of the promise is: in hours or days if units have a length. */
export function windowWords({ promise }, { text, format }) {
  // A view's own unit may be longer than the stream's, of which the window has so many.
  if (promise.window_seconds) return format.duration(promise.window_seconds);
  return promise.window_words ?? text("promise.units", { count: promise.window });
}
