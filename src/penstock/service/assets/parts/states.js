// What stands in the place of a chart: loading, nothing yet, an error, a stream that is catching
// up.
import { el } from "./dom.js";

/** Grey shapes of the size of what is coming, announced once. */
export function loading(element, text, { height = 340 } = {}) {
  const node = el(
    "div",
    { class: "loading", role: "status" },
    el("span", { class: "unseen", text: text("state.loading") }),
  );
  node.style.height = `${height}px`;
  element.replaceChildren(node);
  return node;
}

/** There is nothing to show yet, and why. */
export function empty(element, title, words) {
  element.replaceChildren(
    el("div", { class: "state" }, el("h3", { text: title }), el("p", { text: words })),
  );
}

/**
 * Something went wrong: what, what to do, and a button that tries again.
 * @param {import("../api.js").ApiError | Error} error
 */
export function failure(element, { text }, error, retry = null) {
  const kind =
    { 0: "offline", 404: "unknown", 413: "large", 429: "busy", 503: "catching" }[error.status] ??
    "error";
  element.replaceChildren(
    el(
      "div",
      { class: "state wrong", role: "alert" },
      el("h3", { text: text(`state.${kind}`) }),
      el("p", { text: error.status ? error.message : text("state.offline_words") }),
      retry &&
        el("button", {
          type: "button",
          class: "button",
          text: text("state.retry"),
          on: { click: retry },
        }),
    ),
  );
}

/** A line above the charts while older units are still being copied. */
export function catchingUp(stream, { text, format }) {
  const behind = stream.catching_up;
  return (
    behind &&
    el("p", {
      class: "notice",
      role: "status",
      text: text("state.catching_words", {
        unit: format.number(behind.unit),
        units: format.number(stream.units),
      }),
    })
  );
}
