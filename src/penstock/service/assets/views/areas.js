// A hierarchy from the top down: the node that is shown over time, its children ranked, one step
// deeper each.
import { newestOf, seriesOf, tableOf } from "../parts/answers.js";
import { barList, isRead } from "../parts/bars.js";
import { lineChart } from "../parts/chart.js";
import { el } from "../parts/dom.js";
import { figure } from "../parts/figure.js";
import { FollowingSeries } from "../parts/following_series.js";
import { numbersCall } from "../parts/questions.js";
import { empty, failure, loading } from "../parts/states.js";
import { sureness } from "../parts/sure.js";
import { choiceParams, rangeControl, timeChoice, windowControl } from "../parts/time_controls.js";
import { writeHash } from "../router.js";
import { measureOf } from "./time.js";

const MAX_CHILDREN = 100;

export async function show(element, context) {
  const { api, stream, params, text, format, live } = context;
  if (!stream.hierarchy || !stream.newest) {
    empty(
      element,
      text("state.nothing"),
      text(stream.hierarchy ? "state.empty_words" : "areas.none"),
    );
    return () => {};
  }
  let node = params.get("node") ?? "";
  let choice = timeChoice(stream, params),
    source = null,
    chart = null,
    turn = 0;
  let found = await childrenOf(api, stream, node);
  if (!node && found.children.length === 1 && found.children[0].children) {
    node = found.children[0].key; // a lone root is no choice
    found = await childrenOf(api, stream, node);
  }
  const { children, call: childCall, nodeCall, keyOf } = found;
  const change = (changes) => {
    choice = { ...choice, ...changes };
    context.keep({ node, ...choiceParams(stream, choice) });
    load();
  };
  const deeper = (name, inside) =>
    inside
      ? writeHash(stream.name, "areas", { node: name, ...choiceParams(stream, choice) })
      : writeHash(stream.name, "", { key: keyOf(name), ...choiceParams(stream, choice) });
  element.append(
    crumbs(node, context, deeper),
    el(
      "form",
      { class: "controls", on: { submit: (event) => event.preventDefault() } },
      node && rangeControl(stream, choice, context, change),
      windowControl(stream, choice, context, change),
    ),
  );
  const childrenTitle = node ? text("areas.children", { name: lastPart(node) }) : text("areas.all");
  const over = node ? figure(element, { text, title: lastPart(node), id: "area" }) : null;
  const under = figure(element, { text, title: childrenTitle, id: "children" });
  loading(under.drawing, text, { height: 240 });
  if (over) loading(over.drawing, text);

  const drawn = ({ answer, series, call, fresh }) => {
    const options = {
      series,
      zone: stream.zone,
      text,
      format,
      confidence: answer.confidence,
      measure: measureOf(choice, context),
      label: text("time.label", { name: node }),
      onRange: (from, to) => source.refine(from, to).catch(() => {}),
      height: 280,
    };
    if (chart) chart.update(options);
    else {
      over.drawing.replaceChildren();
      chart = lineChart(over.drawing, options);
    }
    if (fresh) chart.look(null);
    over.update({
      sub: measureOf(choice, context),
      call,
      note: sureness(answer, series, context),
      table: () => tableOf(series, { ...context, zone: Boolean(stream.zone) }),
    });
  };
  const rank = async () => {
    const mine = turn,
      [path, asked] = childCall(choice.window);
    const answer = await api.get(path, asked);
    if (mine !== turn || isRead(under.drawing)) return;
    const inside = new Map(children.map((child) => [child.key, child.children]));
    const series = seriesOf(answer).filter(({ name }) => inside.has(name));
    const rows = series
      .map((one) => ({ ...newestOf(one), name: one.name }))
      .filter(({ estimate }) => estimate != null)
      .sort((one, other) => other.estimate - one.estimate);
    under.drawing.replaceChildren(
      barList(
        rows.map((row) => ({
          ...row,
          name: lastPart(row.name),
          href: deeper(row.name, inside.get(row.name) > 0),
          more: inside.get(row.name) ? text("areas.inside", { count: inside.get(row.name) }) : null,
        })),
        { format, text, label: childrenTitle },
      ),
    );
    const [first] = rows;
    under.update({
      title: childrenTitle,
      sub: [
        measureOf(choice, context),
        first && stream.zone ? format.unit(first.time, first.end) : "",
      ]
        .filter(Boolean)
        .join(" · "),
      call: api.url(path, asked),
      note: sureness(answer, series, context, "bars"),
      table: () => ({
        columns: ["name", "estimate", "low", "high"].map((name) => ({
          name: text(`table.${name}`),
          number: name !== "name",
        })),
        rows: rows.map((row) => [
          row.name,
          ...[row.estimate, row.low, row.high].map((value) => format.number(value)),
        ]),
      }),
    });
  };
  const load = async () => {
    source?.end();
    const mine = (turn += 1);
    if (over) {
      source = new FollowingSeries(context, {
        call: nodeCall(choice.window),
        only: node,
        choice,
        drawn,
      });
      source.load().catch((error) => {
        if (mine !== turn || error.name === "AbortError") return;
        chart?.destroy();
        chart = null;
        failure(over.drawing, context, error, load);
      });
    }
    try {
      await rank();
    } catch (error) {
      if (mine === turn) failure(under.drawing, context, error, load);
    }
  };
  await load();
  const stop = live.follow(
    stream.name,
    async ({ unit }) => {
      await rank();
      await source?.extend(unit);
    },
    { after: stream.newest.unit },
  );
  return () => {
    stop();
    turn += 1;
    source?.end();
    chart?.destroy();
  };
}

/**
 * The children of a node, and how their numbers are asked for. A mechanism may have released all
 * nodes: they are keys then. Otherwise they are added up from the keys, one level at a time.
 */
async function childrenOf(api, stream, node) {
  const path = `${stream.url}/keys?parent=`,
    roots = await api.get(path, { limit: 1 });
  if (roots.keys.length) {
    const { keys } = await api.get(path + encodeURIComponent(node), { limit: MAX_CHILDREN });
    return {
      children: keys,
      call: (window) => numbersCall(stream, { window, keys: keys.map(({ key }) => key) }),
      nodeCall: (window) => numbersCall(stream, { window, keys: [node] }),
      keyOf: (name) => name,
    };
  }
  const depth = node ? node.split("/").length : 0,
    inside = (name) => (node ? name.startsWith(`${node}/`) : true);
  const level = (window, at) => {
    const [question, asked] = numbersCall(stream, { window, nodes: true });
    return [question, { ...asked, depth: at }];
  };
  const below = await api.get(...level(1, depth)),
    names = below.series.map(({ name }) => name).filter(inside);
  const { keys } = await api.get(`${stream.url}/keys`, { limit: 1000 });
  const lowest = Math.max(...keys.map((key) => key.depth)); // below the leaves there is no level
  const next = depth < lowest ? await api.get(...level(1, depth + 1)) : { series: [] };
  const leaves = new Map(keys.map(({ key, parent }) => [`${parent}/${key}`, key]));
  return {
    keyOf: (name) => leaves.get(name) ?? lastPart(name),
    children: names.map((key) => ({
      key,
      children: next.series.filter(({ name }) => name.startsWith(`${key}/`)).length,
    })),
    call: (window) => level(window, depth),
    nodeCall: (window) => level(window, depth - 1),
  };
}

const lastPart = (name) => name.split("/").at(-1);

function crumbs(node, { text }, deeper) {
  const parts = node ? node.split("/") : [],
    names = parts.map((_, at) => parts.slice(0, at + 1).join("/"));
  const items = [["", text("areas.all")], ...names.map((name) => [name, lastPart(name)])];
  return el(
    "nav",
    { class: "crumbs path", "aria-label": text("areas.path") },
    el(
      "ol",
      {},
      ...items.map(([name, words], at) =>
        el(
          "li",
          {},
          at === items.length - 1
            ? el("span", { "aria-current": "page", text: words })
            : el("a", { href: deeper(name, true), text: words }),
        ),
      ),
    ),
  );
}
