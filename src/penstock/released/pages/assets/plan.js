"use strict";
(() => {
  const { $, data, css, show, say, axis, upright, redraw } = Penstock;
  const colours = ["--release", "--second", "--good", "--note", "--water", "--bad"], trivial = ["all zeros", "long-run mean"];
  const names = [...new Set(data.charts.flatMap((chart) => chart.names))];
  const lines = names.filter((name) => !trivial.includes(name));
  const look = (name) => (trivial.includes(name)
    ? { colour: css("--muted"), dash: name === trivial[0] ? [2, 4] : [8, 4] }
    : { colour: css(colours[lines.indexOf(name) % colours.length]), dash: [] });
  const short = (x) => (x == null ? "not possible" : x.toLocaleString("en", { maximumSignificantDigits: 3 }));

  const legend = () => {
    $("legend").replaceChildren(...names.map((name) => {
      const item = document.createElement("li"), key = document.createElement("span"), { colour, dash } = look(name);
      key.className = "key";
      key.style.borderTop = `3px ${dash.length ? (dash[0] < 4 ? "dotted" : "dashed") : "solid"} ${colour}`;
      item.append(key, name);
      return item;
    }));
  };

  const plots = new Map();
  const draw = () => {
    legend();
    data.charts.forEach((chart, at) => {
      const box = $(`chart-${at}`), readout = $(`readout-${at}`);
      const read = (k) => say(readout, ...(k == null ? [`Over ${chart.x}`] : [[`${chart.x} ${chart.labels[k]}`],
        ...chart.names.flatMap((name, i) => [` · ${name} `, [short(chart.lines[i][k])]])]));
      const all = chart.lines.flat().filter((y) => y > 0);
      const [least, most] = [Math.min(...all), Math.max(...all)];
      const [first, last] = [chart.values[0], chart.values[chart.values.length - 1]];
      plots.get(box)?.destroy();
      const u = new uPlot({
        width: box.clientWidth, height: 260, padding: [10, 22, 0, 0], legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { size: 8 } },
        scales: { x: { time: false, distr: 3, range: () => [first / 1.15, last * 1.15] }, y: { distr: 3, range: () => [least / 1.4, most * 1.4] } },
        axes: [
          axis({ size: 34, gap: 8, splits: () => chart.values, values: () => chart.labels }),
          axis({ size: 62, values: (_, at) => at.map((y) => (y == null || !/^[125]\.00e/.test(y.toExponential(2)) ? "" : short(y))) }),
        ],
        series: [{}, ...chart.names.map((name) => ({
          stroke: look(name).colour, dash: look(name).dash, width: 2, spanGaps: true,
          points: { show: !trivial.includes(name), size: 6, fill: look(name).colour },
        }))],
        hooks: {
          setCursor: [(it) => read(it.cursor.left >= 0 ? it.cursor.idx : null)],
          draw: [(it) => upright(it, chart.asked, css("--muted"), [5, 4])],
        },
      }, [chart.values, ...chart.lines], box);
      const point = (event) => {
        if (event.pointerType === "mouse") return;
        const edge = u.over.getBoundingClientRect();
        u.setCursor({ left: event.clientX - edge.left, top: event.clientY - edge.top });
      };
      u.over.addEventListener("pointerdown", point);
      box.tabIndex = 0;
      let chosen = null;
      box.onkeydown = (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step) return;
        event.preventDefault();
        chosen = chosen == null ? 0 : Math.max(0, Math.min(chart.values.length - 1, chosen + step));
        u.setCursor({ left: u.valToPos(chart.values[chosen], "x"), top: 0 });
      };
      plots.set(box, u);
      read(null);
    });
  };
  redraw(draw);
  draw();
})();
