// Links to the API for readers who show a read token. A browser follows a link without that header,
// so the service would refuse it: the page fetches the answer and hands it to the browser.
import { hasToken } from "../api.js";
import { el } from "./dom.js";

const API = "/v1";
const KEPT = 60_000; // milliseconds after which a file must have been taken over by the browser

/**
 * Make all links to the API work with the token, also those that are drawn later. Without a token
 * they are left to the browser. A link with `download`, or to a file, is downloaded; any other
 * answer is shown in a tab of its own.
 * @param {Document | Element} root
 * @param {{api: ReturnType<typeof import("../api.js").makeApi>, text: Function}} session
 */
export function openWithToken(root, { api, text }) {
  const opened = (event) => {
    const link = event.target.closest?.("a[href]");
    if (event.button > 1 || !link || !leadsToApi(link) || !hasToken()) return;
    event.preventDefault();
    follow(link, api, text);
  };
  root.addEventListener("click", opened);
  root.addEventListener("auxclick", opened); // the middle button
}

const leadsToApi = ({ origin, pathname }) =>
  origin === location.origin && (pathname === API || pathname.startsWith(`${API}/`));

const isFile = (link) =>
  link.hasAttribute("download") || /\.(csv|parquet|arrow)$/.test(link.pathname);

async function follow(link, api, text) {
  const notice = noticeOf(link);
  notice?.remove();
  // A tab must be opened while the click lasts: later, a browser takes it for an advertisement.
  const tab = isFile(link) ? null : open("", "_blank");
  try {
    const { content, name } = await api.file(link.getAttribute("href"));
    const address = URL.createObjectURL(content);
    if (tab) tab.location.replace(address);
    else save(address, link.getAttribute("download") || name);
  } catch (error) {
    tab?.close();
    if (error.name !== "ApiError") console.error(error); // a mistake of this page itself
    const words = error.status ? error.message : text("state.offline_words");
    link.after(el("span", { class: "hint refused", role: "alert", text: words }));
  }
}

function noticeOf(link) {
  const next = link.nextElementSibling;
  return next?.classList.contains("refused") ? next : null;
}

function save(address, name) {
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT);
}
