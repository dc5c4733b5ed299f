// Shapes of a GeoJSON file, projected into a box of pixels. No tiles, no network.

const MAX_MERCATOR = 85.05; // degrees; the Web-Mercator projection has no place for the poles
const radians = (degrees) => (degrees * Math.PI) / 180;

// Every feature as {key, points: [[x, y]], rings: [[[x, y]]], lines: [[[x, y]]]}, in degrees.
export function features(geojson, property) {
  const list =
    geojson.type === "FeatureCollection"
      ? geojson.features
      : geojson.type === "Feature"
        ? [geojson]
        : [{ properties: {}, geometry: geojson }];
  return list
    .map((feature) => {
      const value = feature.properties?.[property] ?? (property === "id" ? feature.id : null);
      const shape = { key: value == null ? null : String(value), points: [], rings: [], lines: [] };
      gather(feature.geometry, shape);
      return shape;
    })
    .filter((shape) => shape.points.length || shape.rings.length || shape.lines.length);
}

function gather(geometry, shape) {
  if (!geometry) return;
  const { type, coordinates } = geometry;
  if (type === "GeometryCollection") geometry.geometries.forEach((part) => gather(part, shape));
  else if (type === "Point") shape.points.push(coordinates);
  else if (type === "MultiPoint") shape.points.push(...coordinates);
  else if (type === "LineString") shape.lines.push(coordinates);
  else if (type === "MultiLineString") shape.lines.push(...coordinates);
  else if (type === "Polygon") shape.rings.push(...coordinates);
  else if (type === "MultiPolygon") shape.rings.push(...coordinates.flat());
}

// Degrees become Web-Mercator; coordinates of another kind (metres, say) stay as they are.
export function projection(shapes) {
  const all = shapes.flatMap((shape) => [
    ...shape.points,
    ...shape.rings.flat(),
    ...shape.lines.flat(),
  ]);
  const degrees = all.every(([x, y]) => Math.abs(x) <= 180 && Math.abs(y) <= MAX_MERCATOR);
  const flat = degrees
    ? ([x, y]) => [radians(x), -Math.log(Math.tan(Math.PI / 4 + radians(y) / 2))]
    : ([x, y]) => [x, -y];
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y] of all.map(flat)) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  const width = right - left || 1e-9,
    height = bottom - top || 1e-9;
  // The function that fits everything into a box, in its middle, with a margin on all sides.
  const fit = (boxWidth, boxHeight, margin) => {
    const scale = Math.min((boxWidth - 2 * margin) / width, (boxHeight - 2 * margin) / height);
    const [dx, dy] = [(boxWidth - scale * width) / 2, (boxHeight - scale * height) / 2];
    return (point) => {
      const [x, y] = flat(point);
      return [dx + scale * (x - left), dy + scale * (y - top)];
    };
  };
  return { ratio: height / width, fit };
}

const digits = (number) => Math.round(number * 10) / 10;

export function path(rings, place, closed = true) {
  return rings
    .map((ring) => {
      const points = ring.map(place).map(([x, y]) => `${digits(x)} ${digits(y)}`);
      return `M${points.join("L")}${closed ? "Z" : ""}`;
    })
    .join("");
}

// A place for a label: the point, or the middle of the largest ring (its centre of area).
export function centre(shape, place) {
  if (shape.points.length) return place(shape.points[0]);
  const measured = shape.rings.map((ring) => {
    const points = ring.map(place);
    let [area, x, y] = [0, 0, 0];
    for (let i = 0; i < points.length - 1; i += 1) {
      const cross = points[i][0] * points[i + 1][1] - points[i + 1][0] * points[i][1];
      area += cross;
      x += (points[i][0] + points[i + 1][0]) * cross;
      y += (points[i][1] + points[i + 1][1]) * cross;
    }
    return area === 0
      ? { area: 0, at: points[0] }
      : { area: Math.abs(area / 2), at: [x / (3 * area), y / (3 * area)] };
  });
  return measured.reduce((best, ring) => (ring.area > best.area ? ring : best)).at;
}

const AHEAD = {
  ArrowLeft: (dx, dy) => [-dx, dy],
  ArrowRight: (dx, dy) => [dx, dy],
  ArrowUp: (dx, dy) => [-dy, dx],
  ArrowDown: (dx, dy) => [dy, dx],
};
const CONE = 1.75; // how far aside a place may lie, per step ahead

// The nearest of some places in the direction of an arrow key; null if there is none.
export function neighbour(places, from, key) {
  let best = null;
  let least = Infinity;
  places.forEach(([x, y], index) => {
    const [ahead, aside] = AHEAD[key](x - places[from][0], y - places[from][1]);
    if (index === from || ahead <= 0) return;
    const beyond = Math.abs(aside) > CONE * ahead ? 1e6 : 0; // only if nothing else lies there
    const distance = ahead + 2 * Math.abs(aside) + beyond;
    if (distance < least) [best, least] = [index, distance];
  });
  return best;
}
