// One chart in a frame of another page: /embed/STREAM?question=…&key=…&window=…&last=…
import { makeContext, openSession } from "./context.js";
import { seriesOf } from "./parts/answers.js";
import { lineChart } from "./parts/chart.js";
import { el } from "./parts/dom.js";
import { writeHash } from "./router.js";

const LAST = 168,
  MAX_SERIES = 6;
const CHROME = 112; // pixels of a frame that the title, the readout and the note take
const MIN_HEIGHT = 140;

/** The stream that the address of the page names; its parts are encoded one by one. */
function named() {
  const [, path] = /^\/embed\/(.*)$/.exec(location.pathname) ?? [];
  return path.split("/").map(decodeURIComponent).join("/");
}

async function start() {
  const main = document.getElementById("main"),
    session = await openSession();
  const { api, text, service, language } = session;
  document.documentElement.lang = language;
  try {
    if (session.problem) throw session.problem;
    const stream = await api.get(api.streamPath(named()));
    await chart(main, makeContext(session, { stream }));
    document.title = `${stream.name} · ${service.title}`;
  } catch (error) {
    main.replaceChildren(
      el("p", {
        class: "notice",
        role: "alert",
        text: text("embed.wrong", { why: error.message }),
      }),
    );
    if (error.name !== "ApiError") throw error;
  }
}

async function chart(main, context) {
  const { api, stream, service, text, format, live } = context,
    params = new URLSearchParams(location.search);
  const question = params.get("question") ?? "counts";
  params.delete("question");
  if (!["last", "unit", "from", "after"].some((name) => params.has(name)))
    params.set("last", String(LAST));
  const path = `${stream.url}/answers/${encodeURIComponent(question)}`,
    load = () => api.get(path, params);
  let answer = await load();
  const shown = () => seriesOf(answer).slice(0, MAX_SERIES);
  const names = answer.series.slice(0, MAX_SERIES).map((one) => one.name);
  const title = names.length === 1 ? names[0] : stream.name,
    key = names.length === 1 && params.get("key") ? { key: params.get("key") } : {};
  const box = el("div", { class: "embed-chart" });
  main.replaceChildren(
    el("h1", {}, title, " ", el("small", { text: answer.query ?? "" })),
    box,
    el(
      "p",
      { class: "source" },
      el("span", { text: text("embed.source", { title: service.title || "Penstock" }) }),
      el("a", {
        href: `/${writeHash(stream.name, "", key)}`,
        target: "_blank",
        rel: "noopener",
        text: text("embed.open"),
      }),
    ),
  );
  const drawn = lineChart(box, {
    series: shown(),
    label: title,
    zone: answer.begins || answer.series[0]?.begins ? stream.zone : null,
    confidence: answer.confidence,
    text,
    format,
    height: Math.max(MIN_HEIGHT, innerHeight - CHROME),
    zoom: false,
  });
  addEventListener("resize", () =>
    drawn.update({ height: Math.max(MIN_HEIGHT, innerHeight - CHROME) }),
  );
  if (!params.has("last")) return; // a fixed stretch of time never changes
  live.follow(
    stream.name,
    async () => {
      answer = await load();
      drawn.update({ series: shown() });
    },
    { after: stream.newest?.unit },
  );
}

await start();
