// What charts draw on their canvas: lines with bands, marks on the timeline, shapes.
// Colours are read from style.css whenever a chart is drawn, so both themes work.
import { css } from "./dom.js";

/** Shape and colour tell lines apart together; no line is told by its colour alone. */
export const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "ring"];
export const colourOf = (place) => css(`--c${(place % SHAPES.length) + 1}`);

/** A filled shape around (0, 0), for an SVG path of a size of 10. */
export const SHAPE_PATHS = {
  circle: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
  square: "M-3.6-3.6h7.2v7.2h-7.2z",
  triangle: "M0-4.6 4.4 3.6h-8.8z",
  diamond: "M0-5 4.6 0 0 5-4.6 0z",
  cross: "M-4.4-1.5h2.9v-2.9h3v2.9h2.9v3h-2.9v2.9h-3v-2.9h-2.9z",
  ring: "M-4.4 0a4.4 4.4 0 1 0 8.8 0a4.4 4.4 0 1 0-8.8 0z",
};

/** The first and the last place of a series that the canvas shows. */
export function visible(series, from, to) {
  const { times, ends } = series;
  let first = times.findIndex((_, at) => ends[at] > from);
  if (first < 0) return [0, -1];
  let last = times.findLastIndex((time) => time < to);
  first = Math.max(0, first - 1); // the neighbours give lines that lead out of the picture
  last = Math.min(times.length - 1, last + 1);
  return [first, last];
}

/** The smallest and largest number of all series between two times, with their intervals. */
export function extent(series, from, to) {
  let least = Infinity,
    most = -Infinity;
  for (const one of series) {
    const [first, last] = visible(one, from, to);
    for (let at = first; at <= last; at += 1) {
      for (const value of [one.estimate[at], one.low[at], one.high[at]]) {
        if (value == null) continue;
        if (value < least) least = value;
        if (value > most) most = value;
      }
    }
  }
  return [least, most];
}

/** A series on a canvas: the band of its intervals, then its line. */
export function drawSeries(chart, series, { colour, shape = null, band = true, from, to }) {
  const { ctx, bbox } = chart,
    dpr = devicePixelRatio || 1;
  const [first, last] = visible(series, from, to);
  if (last < first) return;
  const points = toPixels(chart, series, first, last);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  if (band) drawBand(ctx, points, colour);
  drawLine(ctx, points, colour, dpr);
  drawDots(ctx, points, { colour, shape, dpr });
  ctx.restore();
}

function toPixels(chart, series, first, last) {
  const x = (value) => chart.valToPos(value, "x", true),
    y = (value) => (value == null ? null : chart.valToPos(value, "y", true));
  const points = [];
  for (let at = first; at <= last; at += 1) {
    const left = x(series.times[at]),
      right = x(series.ends[at]);
    points.push({
      left,
      right,
      middle: (left + right) / 2,
      y: y(series.estimate[at]),
      low: y(series.low[at]),
      high: y(series.high[at]),
      // Neighbouring units are drawn as steps, thinned ones as straight lines between the kept
      // units.
      step: series.units[at + 1] === series.units[at] + 1,
      stepped: series.units[at - 1] === series.units[at] - 1,
      repeated: Boolean(series.repeated?.[at]),
      raised: Boolean(series.raised?.[at]),
    });
  }
  return points;
}

function drawBand(ctx, points, colour) {
  const edge = (value) => {
    // from the left to the right, as a list of corners per unbroken run
    const runs = [[]];
    points.forEach((point) => {
      if (point.low == null || point.high == null) {
        runs.push([]);
        return;
      }
      const run = runs.at(-1);
      if (point.stepped || !run.length)
        run.push([point.step || point.stepped ? point.left : point.middle, point[value]]);
      else run.push([point.middle, point[value]]);
      if (point.step) run.push([point.right, point[value]]);
      else run.push([point.stepped ? point.right : point.middle, point[value]]);
    });
    return runs.filter((run) => run.length);
  };
  const tops = edge("high"),
    bottoms = edge("low");
  ctx.fillStyle = colour;
  tops.forEach((top, place) => {
    ctx.globalAlpha = 0.16;
    ctx.beginPath();
    [...top, ...bottoms[place].toReversed()].forEach(([x, y], at) =>
      at ? ctx.lineTo(x, y) : ctx.moveTo(x, y),
    );
    ctx.fill();
  });
  ctx.globalAlpha = 1;
}

function drawLine(ctx, points, colour, dpr) {
  const solid = new Path2D(),
    dashed = new Path2D();
  let pen = null; // the path that is being drawn, and where it stands
  const draw = (path, x, y, nextX, nextY) => {
    if (pen?.path !== path || pen.x !== x || pen.y !== y) path.moveTo(x, y);
    path.lineTo(nextX, nextY);
    pen = { path, x: nextX, y: nextY };
  };
  points.forEach((point, at) => {
    if (point.y == null) {
      pen = null;
      return;
    }
    const path = point.repeated ? dashed : solid,
      next = points[at + 1];
    const from = point.stepped || point.step ? point.left : point.middle;
    const until = point.step || point.stepped ? point.right : point.middle;
    draw(path, from, point.y, until, point.y);
    if (!next || next.y == null) return;
    if (point.step) draw(next.repeated ? dashed : solid, point.right, point.y, point.right, next.y);
    else
      draw(
        next.repeated && point.repeated ? dashed : solid,
        until,
        point.y,
        next.step ? next.left : next.middle,
        next.y,
      );
  });
  ctx.strokeStyle = colour;
  ctx.lineJoin = "round";
  ctx.lineWidth = 2 * dpr;
  ctx.stroke(solid);
  ctx.setLineDash([4 * dpr, 3 * dpr]);
  ctx.lineWidth = 1.5 * dpr;
  ctx.stroke(dashed);
  ctx.setLineDash([]);
}

function drawDots(ctx, points, { colour, shape, dpr }) {
  const room =
    points.length > 1 ? (points.at(-1).middle - points[0].middle) / (points.length - 1) : Infinity;
  const each = room >= 13 * dpr; // every unit has room for a dot of its own
  const every = Math.max(1, Math.ceil((90 * dpr) / Math.max(room, 0.01)));
  const paper = css("--card");
  points.forEach((point, at) => {
    if (point.y == null) return;
    const sign = shape && at % every === every >> 1;
    if (point.raised)
      dot(ctx, "diamond", point.middle, point.y, 1.3 * dpr, css("--note"), css("--note"));
    else if (each || sign) {
      const fill = point.repeated ? paper : colour;
      dot(
        ctx,
        sign || shape ? (shape ?? "circle") : "circle",
        point.middle,
        point.y,
        (sign ? 1.05 : 0.75) * dpr,
        colour,
        fill,
      );
    }
  });
}

/** A shape on a canvas; a paper-coloured fill makes it hollow. */
export function dot(ctx, shape, x, y, size, stroke, fill) {
  ctx.save();
  ctx.translate(x, y);
  ctx.scale(size, size);
  const path = new Path2D(SHAPE_PATHS[shape]);
  ctx.fillStyle = shape === "ring" ? css("--card") : fill;
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 1.6;
  ctx.fill(path);
  ctx.stroke(path);
  ctx.restore();
}

/** A dashed line across the chart, such as a limit, with its name. */
export function drawLimit(chart, value, name) {
  const { ctx, bbox } = chart,
    dpr = devicePixelRatio || 1,
    y = chart.valToPos(value, "y", true);
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = css("--limit");
  ctx.lineWidth = 1.5 * dpr;
  ctx.setLineDash([8 * dpr, 4 * dpr]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.font = `600 ${12 * dpr}px ${css("--font")}`;
  ctx.textAlign = "right";
  ctx.textBaseline = "bottom";
  ctx.fillText(name ?? "", bbox.left + bbox.width - 4 * dpr, y - 4 * dpr);
  ctx.restore();
}

/**
 * Marks of the timeline: a numbered sign above a thin line. Signs that would overlap share one.
 * @param {{time: number, end?: number, kind: "event" | "alert", number: number}[]} marks
 */
export function drawMarks(chart, marks, from, to) {
  const { ctx, bbox } = chart,
    dpr = devicePixelRatio || 1,
    radius = 9 * dpr;
  const groups = [];
  for (const mark of marks) {
    if ((mark.end ?? mark.time) < from || mark.time > to) continue;
    const x = Math.max(bbox.left, chart.valToPos(mark.time, "x", true)),
      group = groups.at(-1);
    if (group && x - group.x < 2.2 * radius) group.marks.push({ ...mark, x });
    else groups.push({ x, marks: [{ ...mark, x }] });
  }
  ctx.save();
  ctx.font = `600 ${12 * dpr}px ${css("--font")}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  for (const group of groups) {
    for (const mark of group.marks) drawUpright(chart, mark, from, to);
    const alert = group.marks.some(({ kind }) => kind === "alert"),
      numbers = group.marks.map(({ number }) => number);
    const name = numbers.length > 1 ? `${numbers[0]}–${numbers.at(-1)}` : String(numbers[0]);
    const half = Math.max(radius, ctx.measureText(name).width / 2 + 5 * dpr),
      y = bbox.top - radius - 2 * dpr;
    ctx.fillStyle = css(alert ? "--note" : "--muted");
    ctx.beginPath();
    ctx.roundRect(group.x - half, y - radius, 2 * half, 2 * radius, alert ? 3 * dpr : radius);
    ctx.fill();
    ctx.fillStyle = css("--card");
    ctx.fillText(name, group.x, y + dpr * 0.5);
  }
  ctx.restore();
}

function drawUpright(chart, { x, end, kind }, from, to) {
  const { ctx, bbox } = chart,
    dpr = devicePixelRatio || 1;
  ctx.strokeStyle = ctx.fillStyle = css(kind === "alert" ? "--note" : "--muted");
  ctx.lineWidth = dpr;
  ctx.setLineDash([3 * dpr, 3 * dpr]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.setLineDash([]);
  if (end == null) return;
  const right = chart.valToPos(Math.min(end, to), "x", true); // how long it lasted, at the bottom
  ctx.fillRect(x, bbox.top + bbox.height - 4 * dpr, Math.max(3 * dpr, right - x), 4 * dpr);
}
