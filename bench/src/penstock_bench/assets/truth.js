"use strict";
// Shared by the pages that show releases beside the truth: notes, flags, heat maps, choice of a station.
const Truth = (() => {
  const { $, data, css, show, say, pixels, upright, dot } = Penstock;

  // Numbered flags above a chart, pushed apart where they would cover each other.
  const flags = (u, view, notes) => {
    const { box, dpr } = pixels(u);
    let free = -Infinity;
    notes.forEach(({ at, killed }, i) => {
      if (at < view.from || at > view.to) return;
      const colour = css(killed ? "--bad" : "--note"), flag = Math.max(u.valToPos(at, "x", true), free);
      free = flag + 23 * dpr;
      upright(u, at, colour, killed ? [] : [4, 4], killed ? 3 : 1);
      dot(u, flag, box.top - 12 * dpr, colour, 10, String(i + 1));
    });
  };
  const listNotes = (notes, go) => notes.forEach((note, i) => {
    const item = document.createElement("li"), button = document.createElement("button");
    for (const [tag, words] of [["b", i + 1], ["time", note.when], ["span", note.text]]) {
      const part = document.createElement(tag);
      part.textContent = words;
      if (tag === "b" && note.killed) part.className = "killed";
      button.append(part);
    }
    button.type = "button";
    button.addEventListener("click", () => {
      go(note);
      $("h-chart").scrollIntoView({ block: "center", behavior: "smooth" });
    });
    item.append(button);
    $("notes").append(item);
  });

  // Two heat maps, one pixel per station and unit, scaled by the browser.
  const heats = ({ truth, order, released, key, choose, read }) => {
    const T = truth.length, d = order.length, rowHeight = Math.max(2, Math.min(12, 420 / d));
    const sorted = truth.flat().sort((a, b) => a - b), hottest = Math.max(1, sorted[Math.floor((sorted.length - 1) * 0.998)]);
    const heat = (value) => Math.sqrt(Math.max(0, value ?? 0) / hottest);
    const paint = (canvas, width, height, shade) => {
      const stops = css("--ramp").split(",").map((hex) => [1, 3, 5].map((i) => parseInt(hex.trim().slice(i, i + 2), 16)));
      const image = new ImageData(width, height);
      Object.assign(canvas, { width, height });
      for (let i = 0; i < width * height; i++) {
        const at = Math.min(1, Math.max(0, shade(i % width, Math.floor(i / width)))) * (stops.length - 1), a = Math.min(Math.floor(at), stops.length - 2);
        image.data.set([...stops[a].map((c, j) => Math.round(c + (stops[a + 1][j] - c) * (at - a))), 255], 4 * i);
      }
      canvas.getContext("2d").putImageData(image, 0, 0);
    };
    const canvases = [$("heat-truth"), $("heat-release")];
    const mark = () => canvases.forEach((canvas) => {
      canvas.style.height = `${rowHeight * d}px`;
      Object.assign(canvas.nextElementSibling.style, { top: `${rowHeight * order.indexOf(key()) - 2}px`, height: `${rowHeight + 4}px` });
    });
    const draw = () => {
      const rows = released();
      paint(canvases[0], T, d, (t, r) => heat(truth[t][order[r]]));
      paint(canvases[1], T, d, (t, r) => heat(rows[t][order[r]]));
      paint($("ramp"), 256, 1, (t) => t / 255);
      $("ramp-top").textContent = `${show(hottest)} or more taps per hour`;
      mark();
    };
    const cell = (event) => {
      const box = event.target.getBoundingClientRect(), clamp = (x, n) => Math.max(0, Math.min(n - 1, Math.floor(x)));
      return [clamp(((event.clientX - box.left) / box.width) * T, T), order[clamp(((event.clientY - box.top) / box.height) * d, d)]];
    };
    const tell = (event) => {
      const [t, k] = cell(event);
      say($("heat-readout"), [data.keys[k]], ` · ${read(t)} · truth `, [show(truth[t][k])], " · released ", [show(released()[t][k])]);
    };
    for (const canvas of canvases) {
      canvas.addEventListener("pointermove", tell);
      canvas.addEventListener("pointerdown", tell);
      canvas.addEventListener("click", (event) => choose(cell(event)[1]));
    }
    say($("heat-readout"), "Point at or tap a cell to read it.");
    return { draw, mark };
  };

  // The stations, busiest first.
  const stations = (truth) => {
    const totals = data.keys.map((_, k) => truth.reduce((sum, row) => sum + row[k], 0));
    const order = [...data.keys.keys()].sort((a, b) => totals[b] - totals[a]);
    for (const k of order) $("station").add(new Option(`${data.keys[k]} · ${show(totals[k] / truth.length, 0)} per hour`, k));
    return order;
  };
  const pills = (box, name, texts, choose) => texts.map((text, i) => {
    const label = document.createElement("label"), input = document.createElement("input"), words = document.createElement("span");
    Object.assign(input, { type: "radio", name, value: i });
    words.textContent = text;
    label.append(input, words);
    input.addEventListener("change", () => choose(i));
    box.append(label);
    return input;
  });
  return { flags, listNotes, heats, stations, pills };
})();
