"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const show = (x) => (x == null ? "unknown" : x.toLocaleString("en", { maximumFractionDigits: 1 }));
  const choice = $("name"), box = $("chart");
  data.names.forEach((name, k) => choice.add(new Option(name, k)));

  const axis = (size) => ({
    stroke: css("--muted"), grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false }, size, space: 60,
    font: "12px " + getComputedStyle(document.body).fontFamily,
  });
  const read = (u) => {
    const k = Number(choice.value), t = u && u.cursor.idx != null ? u.cursor.idx : data.units.length - 1;
    const alert = data.raised && data.raised[k][t] ? ", alert" : "";
    const low = data.low[k][t], high = data.high[k][t];
    const band = low == null ? "error not known" : `${show(low)} to ${show(high)} (${data.confidence})`;
    $("readout").textContent = `Unit ${data.units[t]}: ${show(data.estimate[k][t])}, ${band}${alert}`;
  };
  let chart;
  const draw = () => {
    const k = Number(choice.value), columns = [data.units, data.low[k], data.high[k], data.estimate[k]];
    const edge = { stroke: css("--edge"), width: 1, points: { show: false } };
    const series = [{}, edge, edge, { stroke: css("--release"), width: 2, points: { show: data.units.length < 3 } }];
    if (data.raised) {
      columns.push(data.estimate[k].map((x, t) => (data.raised[k][t] ? x : null)));
      series.push({ stroke: css("--note"), width: 0, points: { show: true, size: 7, fill: css("--note") } });
    }
    for (const threshold of data.thresholds) {
      columns.push(data.units.map(() => threshold));
      series.push({ stroke: css("--limit"), width: 1, dash: [6, 4], points: { show: false } });
    }
    if (chart) chart.destroy();
    chart = new uPlot({
      width: box.clientWidth, height: 380, legend: { show: false }, scales: { x: { time: false } },
      axes: [axis(36), axis(64)], series, bands: [{ series: [2, 1], fill: css("--band") }],
      cursor: { y: false, points: { show: false } }, hooks: { setCursor: [read] },
    }, columns, box);
    read(null);
  };
  choice.addEventListener("change", draw);
  addEventListener("resize", () => chart.setSize({ width: box.clientWidth, height: 380 }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();
