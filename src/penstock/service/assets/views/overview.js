// All streams as small multiples: name, promise, newest number, and how it went lately.
import { newestOf, tableOf } from "../parts/answers.js";
import { el } from "../parts/dom.js";
import { figure } from "../parts/figure.js";
import { FollowingSeries } from "../parts/following_series.js";
import { icon } from "../parts/icons.js";
import { promiseLine, titleOf } from "../parts/promise.js";
import { largestKeys, numbersCall, showsTotal } from "../parts/questions.js";
import { eachName, firstRange } from "../parts/ranges.js";
import { sparkline } from "../parts/sparkline.js";
import { catchingUp, empty, failure, loading } from "../parts/states.js";
import { sureness } from "../parts/sure.js";
import { makeFormat } from "../format.js";
import { writeHash } from "../router.js";

export async function show(element, context) {
  const { streams, service, text } = context;
  element.append(
    el(
      "header",
      { class: "page hero" },
      el("h1", { text: service.title === "Penstock" ? text("overview.title") : service.title }),
      el("p", { class: "lead", text: text("overview.lead") }),
    ),
  );
  if (!streams.length) {
    const box = el("div");
    element.append(box);
    empty(box, text("state.empty"), text("overview.none"));
    return () => {};
  }
  const grid = el("div", { class: streams.length > 1 ? "streams" : "streams one" });
  element.append(grid);
  const ends = streams.map((stream) => {
    const place = el("div", { class: "place" });
    grid.append(place);
    return card(place, {
      ...context,
      stream,
      format: makeFormat({ language: context.language, zone: stream.zone }),
    });
  });
  element.append(explanation(text));
  return () => ends.forEach((end) => end());
}

/** One stream. It loads by itself, so that a slow stream does not hold up the others. */
function card(place, given) {
  const { api, text, format, live } = given;
  let { stream } = given,
    source = null,
    stop = () => {},
    ended = false;
  const number = el("p", { class: "figure-number" }),
    picture = el("div", { class: "spark" }),
    when = el("p", { class: "sub" });
  const frame = figure(place, { text, title: "", small: true });
  frame.heading.replaceChildren(
    el("a", { class: "cover", href: writeHash(stream.name), text: titleOf(stream.name) }),
  );
  frame.drawing.append(when, number, picture);
  frame.drawing.after(
    el("p", { class: "kept" }, icon("shield"), el("span", { text: promiseLine(stream, given) })),
  );
  const behind = catchingUp(stream, given);
  if (behind) frame.drawing.before(behind);
  loading(picture, text, { height: 84 });

  const drawn = ({ answer, series, call }) => {
    const [one] = series,
      newest = newestOf(one);
    number.replaceChildren(
      el("b", { text: format.number(newest?.estimate) }),
      " ",
      el("span", { text: newest ? format.margin(newest.low, newest.high) : "" }),
    );
    when.textContent = [
      one.key ?? text("time.total"),
      newest && format.unit(newest.time, newest.end),
    ]
      .filter(Boolean)
      .join(" · ");
    picture.replaceChildren(
      sparkline(one, {
        height: 84,
        label: text("overview.spark", {
          name: stream.name,
          from: format.moment(one.times[0]),
          to: format.moment(one.ends.at(-1)),
        }),
      }),
      el(
        "p",
        { class: "span" },
        ...format.ends(one.times[0], one.ends.at(-1)).map((at) => el("span", { text: at })),
      ),
    );
    frame.update({
      call,
      note: sureness(answer, series, given),
      table: () => tableOf(series, { text, format, zone: Boolean(stream.zone) }),
    });
  };
  const load = async () => {
    try {
      stream = await api.get(stream.url);
      if (!stream.newest) {
        empty(picture, text("state.empty"), text("state.empty_words"));
        return;
      }
      const key = showsTotal(stream) ? null : (await largestKeys(api, stream, 1))[0];
      source = new FollowingSeries(
        { ...given, stream },
        {
          call: numbersCall(stream, key ? { keys: [key] } : { together: true }),
          choice: { range: firstRange(stream) },
          drawn: (state) =>
            drawn({ ...state, series: state.series.map((one) => ({ ...one, key })) }),
        },
      );
      await source.load();
    } catch (error) {
      if (!ended) failure(picture, given, error, load);
      return;
    }
    if (!ended)
      frame.sub(text("overview.every", { every: eachName(stream, given), count: stream.keys }));
  };
  load().then(() => {
    if (ended) return;
    stop = live.follow(stream.name, ({ unit }) => (source?.answer ? source.extend(unit) : load()), {
      after: source?.answer?.last,
    });
  });
  return () => {
    ended = true;
    stop();
    source?.end();
  };
}

function explanation(text) {
  return el(
    "section",
    { class: "explained" },
    el("h2", { text: text("explain.title") }),
    el(
      "div",
      {},
      ...["noise", "ledger", "open"].map((part) =>
        el(
          "div",
          {},
          el("h3", { text: text(`explain.${part}`) }),
          el("p", { text: text(`explain.${part}_words`) }),
        ),
      ),
    ),
  );
}
