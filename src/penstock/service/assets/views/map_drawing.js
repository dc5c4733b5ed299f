// The map itself: an SVG picture with one focusable shape per area, coloured and hatched from outside.
import { svg } from "../parts/dom.js";
import { centre, features, neighbour, path, projection } from "./map_geometry.js";

const MARGIN = 22,
  POINT = 7,
  MAX_POINT = 20,
  MAX_HEIGHT = 620,
  MIN_HEIGHT = 260;
const LABEL_HEIGHT = 15; // pixels of the line of a label

// Draws `geojson` into `box`. Areas are the features whose key is among `keys`; the others are background.
// `chosen(key | null, place)` is told which area is pointed at or focused, `opened(key)` which one is entered.
export function drawMap(box, { geojson, property, keys, label, chosen, opened }) {
  const shapes = features(geojson, property);
  const areas = shapes.filter((shape) => shape.key != null && keys.has(shape.key));
  const others = shapes.filter((shape) => !areas.includes(shape));
  const plane = projection(areas.length ? areas : shapes); // what lies beyond the areas is cut off
  const picture = svg("svg", {
    class: "map-picture",
    role: "group",
    "aria-label": label,
    focusable: "false",
  });
  box.replaceChildren(picture);
  const drawn = new Map(); // key → {group, fill, hatch, shape, place}
  let width = 0,
    looks = new Map(),
    current = 0;

  const build = () => {
    width = box.clientWidth || 600;
    const height = Math.round(Math.max(MIN_HEIGHT, Math.min(MAX_HEIGHT, width * plane.ratio)));
    const place = plane.fit(width, height, MARGIN);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("height", height);
    const below = svg("g", { class: "map-background", "aria-hidden": "true" });
    for (const shape of others) {
      if (shape.rings.length)
        below.append(svg("path", { d: path(shape.rings, place), "fill-rule": "evenodd" }));
      if (shape.lines.length)
        below.append(svg("path", { d: path(shape.lines, place, false), class: "map-line" }));
    }
    const over = svg("g", {}),
      labels = svg("g", { class: "map-labels", "aria-hidden": "true" });
    drawn.clear();
    areas.forEach((shape, index) => {
      const group = svg("g", {
        class: "map-area",
        role: "link",
        tabindex: index === current ? "0" : "-1",
      });
      const [fill, hatch] = ["map-fill", "map-hatch"].map((name) => layer(shape, place, name));
      group.append(fill, hatch);
      over.append(group);
      drawn.set(shape.key, { group, fill, hatch, shape, place: centre(shape, place) });
      listen(group, shape.key, index);
    });
    picture.replaceChildren(hatches(), below, over, labels);
    write(labels, height);
    paint(looks);
  };
  const layer = (shape, place, name) => {
    const group = svg("g", { class: name });
    if (shape.rings.length)
      group.append(svg("path", { d: path(shape.rings, place), "fill-rule": "evenodd" }));
    for (const point of shape.points) {
      const [cx, cy] = place(point);
      group.append(svg("circle", { cx, cy, r: POINT }));
    }
    return group;
  };
  const hatches = () =>
    svg(
      "defs",
      {},
      svg(
        "pattern",
        {
          id: "map-hatch",
          width: 6,
          height: 6,
          patternUnits: "userSpaceOnUse",
          patternTransform: "rotate(45)",
        },
        svg("path", { d: "M0 0V6", class: "map-hatch-line" }),
      ),
    );

  // Names stand beside their areas where there is room; a name that would cover another is left out.
  const write = (group, height) => {
    if (areas.length > 60) return;
    const taken = [];
    for (const {
      shape,
      fill,
      place: [x, y],
    } of drawn.values()) {
      const words = svg("text", {}, shape.key);
      group.append(words);
      const long = words.getComputedTextLength(),
        inside = shape.points.length === 0;
      const spots = inside
        ? [[x - long / 2, y + 4]]
        : [
            [x + MAX_POINT + 3, y + 4],
            [x - MAX_POINT - 3 - long, y + 4],
            [x - long / 2, y - MAX_POINT - 4],
            [x - long / 2, y + MAX_POINT + 14],
          ];
      const free = spots.find(
        ([left, base]) =>
          left > 2 &&
          left + long < width - 2 &&
          base > LABEL_HEIGHT &&
          base < height - 2 &&
          !taken.some(
            (other) =>
              left < other[0] + other[2] + 4 &&
              other[0] < left + long + 4 &&
              Math.abs(base - other[1]) < LABEL_HEIGHT,
          ),
      );
      if (!free || (inside && long > fill.getBBox().width)) {
        words.remove();
        continue;
      }
      taken.push([...free, long]);
      words.setAttribute("x", free[0]);
      words.setAttribute("y", free[1]);
    }
  };

  const listen = (group, key, index) => {
    const tell = () => chosen(key, drawn.get(key).place);
    group.addEventListener("pointerenter", tell);
    group.addEventListener("pointerdown", tell);
    group.addEventListener("pointerleave", () => chosen(null));
    group.addEventListener("blur", () => chosen(null));
    group.addEventListener("focus", () => {
      current = index;
      tell();
    });
    group.addEventListener("click", (event) => {
      if (event.pointerType !== "touch") opened(key);
    });
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter") return opened(key);
      if (!event.key.startsWith("Arrow")) return undefined;
      event.preventDefault();
      const all = [...drawn.values()],
        next = neighbour(
          all.map((each) => each.place),
          index,
          event.key,
        );
      if (next == null) return undefined;
      group.setAttribute("tabindex", "-1");
      all[next].group.setAttribute("tabindex", "0");
      return all[next].group.focus();
    });
  };

  // `looks`: key → {colour, sure, share, name}; `share` (0 to 1) is the size of a point.
  const paint = (next) => {
    looks = next;
    for (const [key, { group, fill, hatch }] of drawn) {
      const look = looks.get(key);
      group.classList.toggle("is-empty", look == null);
      group.setAttribute("aria-label", look?.name ?? key);
      if (look) fill.setAttribute("fill", look.colour);
      else fill.removeAttribute("fill");
      hatch.classList.toggle("is-shown", look != null && !look.sure);
      const radius = look
        ? POINT + (MAX_POINT - POINT) * Math.sqrt(Math.max(0, Math.min(1, look.share)))
        : POINT;
      for (const circle of group.querySelectorAll("circle"))
        circle.setAttribute("r", radius.toFixed(1));
    }
  };

  build();
  const watch = new ResizeObserver(() => {
    if (Math.abs(box.clientWidth - width) > 1) build();
  });
  watch.observe(box);
  return { paint, areas: areas.map((shape) => shape.key), close: () => watch.disconnect() };
}
