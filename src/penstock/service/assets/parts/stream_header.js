// The head of all pages of a stream: name, promise in one line, newest unit, tabs.
import { writeHash } from "../router.js";
import { STREAM_VIEWS } from "../views.js";
import { el } from "./dom.js";
import { icon } from "./icons.js";
import { promiseLine, titleOf } from "./promise.js";
import { eachName } from "./ranges.js";
import { catchingUp } from "./states.js";

/**
 * @returns {{name: string, stream: object, node: Element, below: Element, choose: (view: string)
 *   => void, end: ()
 *   => void}}
 */
export function streamHeader(context) {
  const { stream, service, text, format, live } = context;
  const newest = el("span"),
    below = el("div", { class: "below" });
  const say = ({ begins, ends }) =>
    newest.replaceChildren(
      text("stream.newest"),
      " ",
      el("b", { text: format.unit(begins, ends) }),
    );
  if (stream.newest) say(stream.newest);
  else newest.textContent = text("stream.none");

  const tabs = STREAM_VIEWS.filter(({ applies }) => applies(stream, service)).map((one) =>
    el("a", {
      href: writeHash(stream.name, one.name),
      text: text(one.title),
      data: { view: one.name },
    }),
  );
  const bar = el("nav", { class: "tabs", "aria-label": text("shell.views") }, ...tabs);
  const choose = (name) => {
    const known = tabs.find((tab) => tab.dataset.view === name) ?? tabs[0];
    for (const tab of tabs) {
      if (tab === known) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    // On a phone, tabs scroll: bring the chosen one to the middle.
    bar.scrollLeft = known.offsetLeft - (bar.clientWidth - known.offsetWidth) / 2;
  };
  const facts = [
    text("stream.every", { every: eachName(stream, context) }),
    text("stream.keys", { count: stream.keys }),
  ];
  const node = el(
    "section",
    { class: "page" },
    el(
      "header",
      { class: "stream" },
      el(
        "nav",
        { class: "crumbs", "aria-label": text("shell.where") },
        el("a", { href: "#/", text: text("view.overview") }),
      ),
      el("h1", { text: titleOf(stream.name) }),
      siblings(context),
      el("p", { class: "facts" }, ...facts.map((fact) => el("span", { text: fact })), newest),
      el(
        "p",
        { class: "kept" },
        icon("shield"),
        el(
          "span",
          {},
          promiseLine(stream, context),
          " ",
          el("a", { href: writeHash(stream.name, "privacy"), text: text("stream.why") }),
        ),
      ),
      catchingUp(stream, context),
    ),
    bar,
    below,
  );
  const stop = live.follow(
    stream.name,
    async () => {
      // Views count the units of the same object.
      Object.assign(stream, await context.api.get(stream.url));
      if (stream.newest) say(stream.newest);
    },
    { after: stream.newest?.unit },
  );
  return { name: stream.name, stream, node, below, choose, end: stop };
}

/** Other views of the same stream, such as hourly and daily. */
function siblings({ stream, streams, text }) {
  const family = stream.name.includes("/")
    ? stream.name.slice(0, stream.name.lastIndexOf("/") + 1)
    : null;
  const found = family ? streams.filter(({ name }) => name.startsWith(family)) : [];
  return (
    found.length > 1 &&
    el(
      "nav",
      { class: "pills", "aria-label": text("stream.siblings") },
      ...found.map(({ name }) =>
        el("a", {
          href: writeHash(name),
          text: name.slice(family.length),
          "aria-current": name === stream.name ? "true" : null,
        }),
      ),
    )
  );
}
