// The shell: header, footer, and the view that the address names.
import { hasToken, keepToken } from "./api.js";
import { makeContext, openSession } from "./context.js";
import { el } from "./parts/dom.js";
import { icon, logo } from "./parts/icons.js";
import { failure, loading } from "./parts/states.js";
import { streamHeader } from "./parts/stream_header.js";
import { openWithToken } from "./parts/token_links.js";
import { readHash, toParams, writeHash } from "./router.js";
import { keepLanguage } from "./texts.js";
import { viewOf } from "./views.js";

const main = document.getElementById("main");

/** Draw the page for the address, and again whenever the address changes. */
class Shell {
  constructor(session) {
    this.session = session;
    this.leave = null; // ends the view that is shown
    this.header = null; // of the stream that is shown
    this.turn = 0; // a view that loads slowly must not replace a newer one
  }

  async start() {
    document.documentElement.lang = this.session.language;
    header(this.session);
    footer(this.session);
    openWithToken(document, this.session);
    if (this.session.problem) {
      this.refused(this.session.problem);
      return;
    }
    addEventListener("hashchange", () => this.show({ moved: true }));
    await this.show({ moved: false });
  }

  /** The service does not answer, or wants its read token first. */
  refused(error) {
    const { text } = this.session,
      box = el("section", { class: "page narrow" });
    main.replaceChildren(box);
    if (error.status !== 401) {
      failure(box, { text }, error, () => location.reload(), { heading: "h1" });
      return;
    }
    const field = el("input", {
      type: "password",
      id: "token",
      autocomplete: "off",
      required: true,
    });
    box.append(
      el(
        "form",
        {
          class: "card state",
          on: {
            submit: (event) => {
              event.preventDefault();
              keepToken(field.value);
              location.reload();
            },
          },
        },
        el("h1", { text: text("token.title") }),
        el("p", { text: text("token.words") }),
        hasToken() && el("p", { class: "notice", role: "alert", text: text("token.wrong") }),
        el("label", { for: "token", text: text("token.label") }),
        field,
        el("button", { class: "button", text: text("token.go") }),
      ),
    );
  }

  async show({ moved }) {
    const route = readHash(location.hash),
      turn = (this.turn += 1),
      { text, api } = this.session;
    this.leave?.();
    this.leave = null;
    const same = this.header && this.header.name === route.stream;
    if (!same) {
      this.header?.end();
      this.header = null;
      loading(main, text, { height: 480 });
    }
    try {
      const [{ streams }, found] = await Promise.all([
        api.get("/v1/streams"),
        route.stream == null ? null : api.get(api.streamPath(route.stream)),
      ]);
      if (turn !== this.turn) return;
      const stream = same ? Object.assign(this.header.stream, found) : found;
      const place = this.place(route, stream, streams, same);
      const leave = await this.draw(place, route, stream, streams);
      if (turn !== this.turn) {
        leave?.();
        return;
      }
      this.leave = leave;
    } catch (error) {
      if (turn !== this.turn) return;
      if (error.status === 401) {
        this.refused(error);
        return;
      }
      this.header?.end();
      this.header = null;
      const box = el("section", { class: "page narrow" });
      main.replaceChildren(box);
      failure(box, this.session, error, () => this.show({ moved: false }), { heading: "h1" });
    }
    if (moved) main.focus({ preventScroll: same });
    if (moved && !same) scrollTo(0, 0);
  }

  /** The element for the view: below the stream's header, or the whole page. */
  place(route, stream, streams, same) {
    const box = el("div", { class: "view" });
    if (!stream) {
      main.replaceChildren(box);
      return box;
    }
    if (same) {
      this.header.choose(route.view);
      this.header.below.replaceChildren(box);
      return box;
    }
    const context = makeContext(this.session, { stream, streams });
    this.header = streamHeader(context);
    this.header.below.append(box);
    main.replaceChildren(this.header.node);
    this.header.choose(route.view);
    return box;
  }

  async draw(box, route, stream, streams) {
    const { session } = this,
      view = viewOf(route);
    const { show } = await import(view.module);
    const title = (words) => {
      document.title = [words, session.service.title].filter(Boolean).join(" · ");
    };
    title(stream ? `${stream.name} · ${session.text(view.title)}` : "");
    return show(
      box,
      makeContext(session, {
        stream,
        streams,
        params: route.params,
        title,
        go: (hash) => {
          location.hash = hash;
        },
        keep: (params) => {
          const kept = new URLSearchParams(toParams(params));
          history.replaceState(null, "", writeHash(route.stream, route.view, kept) || "#/");
        },
      }),
    );
  }
}

function header({ text, service, language, live }) {
  const state = el("p", { class: "live", role: "status" });
  let later = null;
  const say = (words) =>
    state.replaceChildren(
      el("span", { class: "dot", "aria-hidden": "true" }),
      el("span", { text: text(words) }),
    );
  live.onState((now, before) => {
    clearTimeout(later);
    state.dataset.state = now;
    if (now === "idle") {
      state.replaceChildren(); // nothing on this page follows a stream
      return;
    }
    const again = now === "live" && (before === "lost" || before === "older");
    say(again ? "live.again" : `live.${now}`);
    if (again) later = setTimeout(say, 8000, "live.live");
  });
  const theme = el(
    "button",
    {
      type: "button",
      class: "round",
      "aria-label": text("shell.theme"),
      title: text("shell.theme"),
      on: {
        click: () =>
          globalThis.chooseTheme(
            document.documentElement.dataset.theme === "dark" ? "light" : "dark",
          ),
      },
    },
    icon("sun"),
    icon("moon"),
  );
  const languages = el(
    "select",
    {
      "aria-label": text("shell.language"),
      on: {
        change: () => {
          keepLanguage(languages.value);
          location.reload();
        },
      },
    },
    ...(service?.languages ?? [language]).map((one) =>
      el("option", { value: one, text: new Intl.DisplayNames(one, { type: "language" }).of(one) }),
    ),
  );
  languages.value = language;
  document.getElementById("top").replaceChildren(
    el("a", {
      class: "skip",
      href: "#main",
      text: text("shell.skip"),
      on: {
        click: (event) => {
          event.preventDefault();
          main.focus();
        },
      },
    }),
    el(
      "div",
      { class: "bar" },
      el(
        "a",
        { class: "brand", href: "#/" },
        logo(),
        el("span", { text: service?.title || "Penstock" }),
      ),
      state,
      el("div", { class: "settings" }, languages, theme),
    ),
  );
}

function footer({ text, service }) {
  document
    .getElementById("foot")
    .replaceChildren(
      el("p", { text: text("shell.about") }),
      el(
        "p",
        {},
        el("a", { href: service?.openapi_url ?? "/v1/openapi.json", text: text("shell.api") }),
        " · ",
        text("shell.made", { version: service?.penstock ?? "" }),
      ),
    );
}

new Shell(await openSession()).start();
