// What the numbers of a promise mean. Every bound is rounded up: a promise is never shown as more than it is.

/** "1/2" or "0.5" as a number. */
export function fraction(text) {
  const [above, below = "1"] = String(text ?? 0).split("/");
  return Number(above) / Number(below);
}

/** At least three digits, rounded up. */
export function up(number, digits = 3) {
  if (!(number > 0) || !Number.isFinite(number)) return number;
  const step = 10 ** (Math.floor(Math.log10(number)) - digits + 1);
  return Number((Math.ceil(number / step - 1e-9) * step).toPrecision(digits));
}

/** How much more likely an observation can be with a person than without. */
export const likelihood = ({ epsilon }) => up(Math.exp(fraction(epsilon)));

/** The most to which a suspicion (0 to 1) can rise; for a promise without delta. */
export function suspicion({ epsilon }, before) {
  const odds = (before / (1 - before)) * Math.exp(fraction(epsilon));
  return Math.min(1, up(odds === Infinity ? 1 : odds / (1 + odds)));
}

/** How often a guess between two equally likely answers is right at most. */
export function belief({ epsilon, delta }) {
  const small = Math.exp(-fraction(epsilon));
  return Math.min(1, up((1 + fraction(delta) * small) / (1 + small)));
}
