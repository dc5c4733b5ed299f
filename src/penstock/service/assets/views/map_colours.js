// Colours of numbers: one ramp for counts, one with two sides for changes.

const hex = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

// The ramps of a theme are lists of colours in its stylesheet: --ramp and --change.
export function ramp(name) {
  const css = getComputedStyle(document.documentElement).getPropertyValue(name);
  const stops = css.split(",").map((part) => hex(part.trim()));
  return (share) => {
    const at = Math.max(0, Math.min(1, share)) * (stops.length - 1),
      low = Math.min(Math.floor(at), stops.length - 2);
    const mixed = stops[low].map((value, i) =>
      Math.round(value + (at - low) * (stops[low + 1][i] - value)),
    );
    return `rgb(${mixed.join(",")})`;
  };
}

// A round number at or above a number.
export function roundUp(number) {
  if (!(number > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return power * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= number * 0.9999999);
}

// The value below which this share of all numbers lies: the end of a scale that one outlier cannot stretch.
export function quantile(numbers, share) {
  const sorted = numbers.filter(Number.isFinite).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : 0;
}
