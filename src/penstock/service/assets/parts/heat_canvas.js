// Key × time as coloured cells on a canvas, with a pointer and a keyboard that read single cells.
import { css, el, newId } from "./dom.js";
import { tickLabels } from "./ticks.js";

const ROW = 22,
  LEAST_ROW = 12,
  TOP = 6,
  BOTTOM = 40,
  LEAST_WIDTH = 2;

/**
 * @typedef {object} HeatOptions
 * @property {string[]} names one per row
 * @property {number[]} times begin of each column, seconds since 1970
 * @property {number[]} ends
 * @property {(number | null)[][]} rows numbers by row and column
 * @property {(row: number, column: number) => boolean} [doubtful] cells that noise alone could
 *   have made
 * @property {{rgb: Function}} scale
 * @property {(row: number, column: number) => Node[]} read what the readout says of a cell
 * @property {(row: number, column: number) => void} open Enter, or a double click
 */

/** @param {Element} element @param {HeatOptions} given */
export function heatCanvas(element, given) {
  let options = given,
    chosen = null,
    layout = null;
  const hint = el("p", { class: "unseen", id: newId("keys"), text: options.text("heat.keys") });
  const canvas = el("canvas", {
    class: "heat",
    tabindex: "0",
    role: "img",
    "aria-label": options.label,
    "aria-describedby": hint.id,
  });
  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const box = el("div", { class: "heat-box" }, canvas);
  element.append(readout, box, hint);

  const draw = () => {
    const { names, times, zone, format } = options,
      dpr = devicePixelRatio || 1,
      width = box.clientWidth;
    if (!width || !times.length) return;
    const font = `13px ${css("--font")}`,
      ctx = canvas.getContext("2d");
    ctx.font = font;
    const widest = Math.max(0, ...names.map((name) => ctx.measureText(name).width));
    const left = Math.min(widest + 12, width * 0.32),
      row = names.length > 60 ? LEAST_ROW + 2 : ROW;
    const height = TOP + row * names.length + BOTTOM,
      cell = Math.max((width - left) / times.length, 0.5);
    [canvas.width, canvas.height] = [width * dpr, height * dpr];
    [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
    layout = { left, row, cell, width };
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    drawCells(ctx, dpr);
    drawNames(ctx, font);
    drawTimes(ctx, font, tickLabels(format, zone));
    if (chosen) drawChosen(ctx);
  };

  const drawCells = (ctx, dpr) => {
    const { rows, scale, doubtful } = options,
      { left, row, cell, width } = layout;
    // More columns than pixels: each pixel shows the largest number of its columns.
    const columns = Math.max(1, Math.round(Math.min(options.times.length, (width - left) * dpr)));
    const step = options.times.length / columns,
      wide = (width - left) / columns,
      pen = css("--hatch");
    rows.forEach((numbers, place) => {
      for (let x = 0; x < columns; x += 1) {
        let value = null,
          at = Math.floor(x * step);
        for (
          let column = at;
          column < Math.max((x + 1) * step, at + 1) && column < numbers.length;
          column += 1
        ) {
          if (numbers[column] != null && (value == null || numbers[column] > value))
            [value, at] = [numbers[column], column];
        }
        if (value == null) continue;
        ctx.fillStyle = `rgb(${scale.rgb(value)})`;
        const gap = cell > 6 ? 1 : 0;
        ctx.fillRect(left + x * wide, TOP + place * row, wide - gap + (gap ? 0 : 0.4), row - 1);
        if (doubtful?.(place, at))
          hatch(ctx, left + x * wide, TOP + place * row, wide - gap, row - 1, pen);
      }
    });
  };

  const drawNames = (ctx, font) => {
    const { names } = options,
      { left, row } = layout,
      every = row < ROW - 4 ? 2 : 1;
    ctx.font = row < ROW - 4 ? font.replace("13px", "12px") : font;
    ctx.fillStyle = css("--ink");
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    names.forEach((name, place) => {
      if (place % every === 0)
        ctx.fillText(fitted(ctx, name, left - 10), left - 8, TOP + place * row + row / 2);
    });
  };

  const drawTimes = (ctx, font, labels) => {
    const { times, names } = options,
      { left, row, cell, width } = layout,
      y = TOP + names.length * row + 8;
    const span = times.at(-1) - times[0],
      steps = [
        60,
        300,
        900,
        3600,
        10800,
        21600,
        43200,
        86400,
        2 * 86400,
        7 * 86400,
        14 * 86400,
        30 * 86400,
        91 * 86400,
        365 * 86400,
      ];
    const step = steps.find((one) => (span / one) * 58 <= width - left) ?? steps.at(-1);
    const at = times
      .map((time, column) => ({ time, column }))
      .filter(({ time, column }) =>
        column === 0 ? false : startsStep(times[column - 1], time, step, options.zone),
      );
    const words = labels(
      null,
      at.map(({ time }) => time),
      0,
      0,
      step,
    );
    ctx.font = font.replace("13px", "12px");
    ctx.fillStyle = css("--muted");
    ctx.textBaseline = "top";
    ctx.textAlign = "center";
    let free = left;
    at.forEach(({ column }, place) => {
      const x = left + column * cell,
        lines = words[place].split("\n"),
        half = Math.max(...lines.map((line) => ctx.measureText(line).width)) / 2;
      if (x - half < free || x + half > width) return;
      free = x + half + 8;
      lines.forEach((line, below) => ctx.fillText(line, x, y + 15 * below));
      ctx.fillRect(x, y - 6, 1, 4);
    });
  };

  const drawChosen = (ctx) => {
    const { left, row, cell } = layout,
      wide = Math.max(cell, LEAST_WIDTH);
    ctx.lineWidth = 2;
    ctx.strokeStyle = css("--card");
    ctx.strokeRect(left + chosen.column * cell - 2, TOP + chosen.row * row - 2, wide + 4, row + 3);
    ctx.strokeStyle = css("--ink");
    ctx.strokeRect(left + chosen.column * cell - 0.5, TOP + chosen.row * row - 0.5, wide + 1, row);
  };

  const choose = (cell) => {
    chosen = cell;
    readout.replaceChildren(
      ...(cell ? options.read(cell.row, cell.column) : [options.text("heat.point")]),
    );
    draw();
  };
  const cellAt = (event) => {
    const edge = canvas.getBoundingClientRect(),
      x = event.clientX - edge.left - layout.left,
      y = event.clientY - edge.top - TOP;
    const row = Math.floor(y / layout.row),
      column = Math.floor(x / layout.cell);
    return x >= 0 && row >= 0 && row < options.names.length && column < options.times.length
      ? { row, column }
      : null;
  };
  canvas.addEventListener("pointermove", (event) => layout && choose(cellAt(event)));
  canvas.addEventListener("pointerdown", (event) => layout && choose(cellAt(event)));
  canvas.addEventListener("pointerleave", () => document.activeElement !== canvas && choose(null));
  canvas.addEventListener("dblclick", (event) => {
    const cell = cellAt(event);
    if (cell) options.open(cell.row, cell.column);
  });
  canvas.addEventListener("keydown", (event) => {
    const moves = {
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      PageUp: [-10, 0],
      PageDown: [10, 0],
    };
    const last = options.times.length - 1,
      at = chosen ?? { row: 0, column: last + 1 };
    let next = null;
    if (event.key in moves)
      next = { row: at.row + moves[event.key][0], column: at.column + moves[event.key][1] };
    else if (event.key === "Home") next = { row: at.row, column: 0 };
    else if (event.key === "End") next = { row: at.row, column: last };
    else if (event.key === "Enter" && chosen) options.open(chosen.row, chosen.column);
    else if (event.key === "Escape") choose(null);
    else return;
    event.preventDefault();
    if (next)
      choose({ row: clamp(next.row, options.names.length - 1), column: clamp(next.column, last) });
  });

  const resized = new ResizeObserver(draw);
  document.addEventListener("theme", redraw);
  function redraw() {
    options.themed?.();
    draw();
  }
  const update = (changes) => {
    options = { ...options, ...changes };
    canvas.setAttribute("aria-label", options.label);
    if (chosen && (chosen.row >= options.names.length || chosen.column >= options.times.length))
      chosen = null;
    choose(chosen);
  };
  update({});
  resized.observe(box);
  return {
    update,
    destroy: () => {
      resized.disconnect();
      document.removeEventListener("theme", redraw);
    },
  };
}

const clamp = (value, most) => Math.min(most, Math.max(0, value));

/** Whether a new step of the axis begins with this column: a new day, hour or month of the zone. */
function startsStep(before, time, step, zone) {
  const day = 86400,
    shift = zone ? offsetOf(time, zone) : 0;
  if (step >= 28 * day) {
    const month = (at) => new Date((at + shift) * 1000).getUTCMonth();
    return (
      month(before) !== month(time) &&
      (step < 60 * day || month(time) % (step > 100 * day ? 12 : 3) === 0)
    );
  }
  return Math.floor((before + shift) / step) !== Math.floor((time + shift) / step);
}

const offsets = new Map();
function offsetOf(time, zone) {
  const name = `${zone} ${Math.floor(time / 86400)}`;
  if (!offsets.has(name)) {
    const text = new Intl.DateTimeFormat("en", {
      timeZone: zone,
      timeZoneName: "longOffset",
    }).format(new Date(time * 1000));
    const [, sign, hours = 0, minutes = 0] = /GMT([+-])?(\d+)?:?(\d+)?/.exec(text) ?? [];
    offsets.set(name, (sign === "-" ? -1 : 1) * (Number(hours) * 3600 + Number(minutes) * 60));
  }
  return offsets.get(name);
}

function hatch(ctx, x, y, width, height, colour) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.6;
  ctx.beginPath();
  for (let at = Math.floor((x - height) / 5) * 5; at < x + width; at += 5) {
    // one pattern across cells
    ctx.moveTo(at, y + height);
    ctx.lineTo(at + height, y);
  }
  ctx.stroke();
  ctx.restore();
}

function fitted(ctx, words, width) {
  if (ctx.measureText(words).width <= width) return words;
  let length = words.length;
  while (length > 1 && ctx.measureText(`${words.slice(0, length)}…`).width > width) length -= 1;
  return `${words.slice(0, length)}…`;
}
