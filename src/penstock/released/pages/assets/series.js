"use strict";
(() => {
  const { $, data, css, narrow, show, say, timeline, pixels, limit, dot, line, edge, toTheEnd, redraw } = Penstock;
  const choice = $("name"), units = data.units.length;
  data.names.forEach((name, k) => choice.add(new Option(name, k)));
  const time = timeline({ xs: data.starts, zone: data.zone });
  const read = (unit) => {
    const k = Number(choice.value), t = unit ?? units - 1, low = data.low[k][t], high = data.high[k][t];
    const named = time.name(data.starts[t], data.starts[t + 1]);
    const band = low == null || high == null ? " · interval not known" : ` · ${data.confidence} interval ${show(low)} to ${show(high)}`;
    say($("readout"), [named], data.zone ? ` (unit ${show(data.units[t])})` : "", " · ", [show(data.estimate[k][t])], band,
      data.raised?.[k][t] ? " · " : "", ...(data.raised?.[k][t] ? [["alert"]] : []));
  };
  const draw = () => {
    const k = Number(choice.value);
    const raised = (u) => {
      for (const threshold of data.thresholds) limit(u, threshold);
      const { box, dpr } = pixels(u);
      (data.raised?.[k] ?? []).forEach((flag, t) => {
        const x = u.valToPos((data.starts[t] + data.starts[t + 1]) / 2, "x", true);
        if (flag && data.estimate[k][t] != null && x >= box.left - dpr && x <= box.left + box.width + dpr) {
          dot(u, x, u.valToPos(data.estimate[k][t], "y", true), css("--note"));
        }
      });
    };
    const range = (_, low, high) => {
      const all = [low, high, ...data.thresholds].filter((x) => x != null), [least, most] = [Math.min(0, ...all), Math.max(...all, 1)];
      return [least - (most - least) * (least < 0 ? 0.06 : 0), most + (most - least) * 0.06];
    };
    $("h-chart").textContent = `${data.names[k]}, over time`;
    time.chart($("chart"), {
      names: { x: data.zone ? `Start of the unit (${data.zone})` : "Unit", y: narrow() ? "" : data.measure }, // a phone has no room for it
      height: 380, range, draw: raised, read, columns: [data.high[k], data.low[k], data.estimate[k]].map(toTheEnd),
      series: [edge(), edge(), line(css("--release"), 2)], bands: [{ series: [1, 2], fill: css("--band") }],
    });
    read(null);
    time.look(time.view.from, time.view.to);
  };
  choice.addEventListener("change", draw);
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  redraw(draw);
  draw();
})();
