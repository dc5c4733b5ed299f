// What stands in the place of a chart: loading, nothing yet, an error, a stream that is catching
// up.
import { writeHash } from "../router.js";
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
 * @param {Element} element
 * @param {object} context of the view
 * @param {import("../api.js").ApiError | Error} error
 * @param {(() => void) | null} [retry]
 * @param {{heading?: string}} [options] the element of the heading; h1 if it is the whole page
 */
export function failure(
  element,
  { text, stream = null },
  error,
  retry = null,
  { heading = "h3" } = {},
) {
  const kind =
    { 0: "offline", 404: "unknown", 413: "large", 429: "busy", 503: "catching" }[error.status] ??
    "error";
  // The API names the nearest key as well; here it is a link.
  const said = error.message.replace(/ Did you mean [^?]*\?$/, "");
  const words = {
    offline: text("state.offline_words"),
    error: error.status ? said : text("state.error_words"),
  };
  if (error.name !== "ApiError") console.error(error); // a mistake of this page itself
  const nearest =
    error.nearest &&
    el(
      "p",
      {},
      `${text("state.nearest")} `,
      el("a", {
        href: stream
          ? writeHash(stream.name, "", { key: error.nearest })
          : writeHash(error.nearest),
        text: error.nearest,
      }),
    );
  element.replaceChildren(
    el(
      "div",
      { class: "state wrong", role: "alert" },
      el(heading, { text: text(`state.${kind}`) }),
      el("p", { text: sentence(words[kind] ?? said) }),
      nearest,
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

/** A line above the charts while older units are still being copied; it follows the copy. */
export function catchingUp(stream, { text, format, api }) {
  if (!stream.catching_up) return null;
  const line = el("p", { class: "notice", role: "status" });
  const say = ({ catching_up: behind, units }) => {
    if (!behind) {
      line.remove();
      return;
    }
    const values = { unit: format.number(behind.unit), units: format.number(units) };
    line.textContent = text("state.catching_words", values);
    setTimeout(look, 3000);
  };
  const look = async () => {
    if (!line.isConnected) return; // the reader has left
    try {
      say(await api.get(stream.url));
    } catch {
      setTimeout(look, 3000);
    }
  };
  say(stream);
  return line;
}

const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1);
