// Text to take away: a box that is selected by one click, with a button that copies it.
import { hasToken } from "../api.js";
import { el } from "./dom.js";

const SHOWN = 2_000; // milliseconds for which the button says that it has copied

/**
 * @param {string} content
 * @param {{text: Function, label: string}} options the label says to a screen reader what is in the box
 * @returns {HTMLElement & {change: (content: string) => void}}
 */
export function copyable(content, { text, label }) {
  const code = el("code", { text: content });
  const box = el("pre", { tabindex: "0", role: "region", "aria-label": label }, code);
  const said = el("span", { class: "unseen", role: "status" });
  const button = el("button", {
    type: "button",
    class: "button quiet copy",
    text: text("copy.copy"),
    "aria-label": text("copy.label", { what: label }),
  });
  let timer = null;
  const say = (key) => {
    button.textContent = said.textContent = text(key);
    clearTimeout(timer);
    timer = setTimeout(() => {
      button.textContent = text("copy.copy");
      said.textContent = "";
    }, SHOWN);
  };
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      say("copy.copied");
    } catch {
      // without a secure connection there is no clipboard: select it for the reader
      getSelection().selectAllChildren(code);
      say("copy.selected");
    }
  });
  const node = el("div", { class: "copyable" }, box, button, said);
  node.change = (next) => {
    code.textContent = next;
  };
  return node;
}

/** The lines of Python that open this stream from anywhere. */
export function connected({ name }) {
  const [address, stream] = [location.origin, name].map((one) => JSON.stringify(one));
  if (!hasToken())
    return ["import penstock as ps", "", `stream = ps.connect(${address}, ${stream})`];
  return [
    "import os",
    "",
    "import penstock as ps",
    "",
    `token = ${TOKEN_IN_PYTHON}`,
    `stream = ps.connect(${address}, ${stream}, token=token)`,
  ];
}

/** Where code to copy takes the read token from: code that is sent on must not carry it. */
export const TOKEN_IN_PYTHON = 'os.environ["PENSTOCK_TOKEN"]';
