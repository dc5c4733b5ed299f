// The keys with the largest numbers, and how certain it is that they are.
import { barList, isRead } from "../parts/bars.js";
import { pills } from "../parts/controls.js";
import { el } from "../parts/dom.js";
import { figure } from "../parts/figure.js";
import { whyNot } from "../parts/questions.js";
import { empty, failure, loading } from "../parts/states.js";
import { timeChoice, windowControl } from "../parts/time_controls.js";
import { writeHash } from "../router.js";
import { measureOf } from "./time.js";

const SIZES = [5, 10, 20, 50];

export async function show(element, context) {
  const { api, stream, params, text, format, live } = context,
    reason = whyNot(stream, "top");
  if (!stream.newest || reason) {
    empty(
      element,
      text(reason ? "state.nothing" : "state.empty"),
      reason || text("state.empty_words"),
    );
    return () => {};
  }
  const sizes = SIZES.filter((size) => size < stream.keys);
  if (!sizes.length) sizes.push(Math.max(1, stream.keys - 1));
  let { window } = timeChoice(stream, params),
    k = Number(params.get("k"));
  if (!sizes.includes(k)) k = sizes.includes(10) ? 10 : sizes[0];
  const change = (changes) => {
    ({ k = k, window = window } = changes);
    context.keep({ k, window: window > 1 ? window : null });
    load();
  };
  element.append(
    el(
      "form",
      { class: "controls", on: { submit: (event) => event.preventDefault() } },
      pills({
        label: text("top.count"),
        value: String(k),
        options: sizes.map((size) => [String(size), format.number(size)]),
        change: (value) => change({ k: Number(value) }),
      }),
      windowControl(stream, { window }, context, change),
    ),
  );
  const frame = figure(element, {
    text,
    title: text("top.title", { k: format.number(k) }),
    id: "ranking",
  });
  loading(frame.drawing, text);

  let turn = 0;
  const load = async () => {
    const mine = (turn += 1),
      path = `${stream.url}/answers/top`,
      asked = { k, window: window > 1 ? window : null };
    try {
      const answer = await api.get(path, asked);
      if (mine === turn && !isRead(frame.drawing)) draw(answer, api.url(path, asked));
    } catch (error) {
      if (mine === turn) failure(frame.drawing, context, error, load);
    }
  };
  const draw = (answer, call) => {
    const { rows, begins, ends } = answer.ranking.at(-1),
      sure = rows.filter((row) => row.surely_among_them).length;
    const title = text("top.title", { k: format.number(k) });
    frame.drawing.replaceChildren(
      el(
        "p",
        { class: "legend" },
        el("span", { class: "badge", text: text("top.sure") }),
        text("top.legend", { k: format.number(k) }),
      ),
      barList(
        rows.map((row) => ({
          ...row,
          href: writeHash(stream.name, "", { key: row.name, window: window > 1 ? window : null }),
          badge: row.surely_among_them ? text("top.sure") : null,
          hint: text("top.legend", { k: format.number(k) }),
        })),
        { format, text, label: title },
      ),
    );
    frame.update({
      title,
      call,
      sub: [
        measureOf({ window }, context),
        begins ? format.unit(begins, ends ?? undefined) : text("chart.unit", { unit: answer.last }),
      ].join(" · "),
      note: [
        text("top.how", { share: format.percent(answer.confidence) }),
        text("top.count_sure", { count: sure, k: format.number(k) }),
        text("sure.noise"),
      ],
      table: () => ({
        columns: [
          { name: text("top.rank"), number: true },
          { name: text("table.name") },
          { name: text("table.estimate"), number: true },
          { name: text("table.low"), number: true },
          { name: text("table.high"), number: true },
          { name: text("top.among") },
          { name: text("top.larger") },
        ],
        rows: rows.map((row) => [
          format.number(row.rank),
          row.name,
          ...[row.estimate, row.low, row.high].map((value) => format.number(value)),
          text(row.surely_among_them ? "table.yes" : "table.no"),
          text(row.surely_larger_than_the_rest ? "table.yes" : "table.no"),
        ]),
      }),
    });
  };
  await load();
  return live.follow(stream.name, load, { after: stream.newest.unit });
}
