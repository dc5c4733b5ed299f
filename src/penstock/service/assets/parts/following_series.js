// The numbers of a chart: loaded, followed live, and refined where the reader looks closer.
import { append, seriesOf } from "./answers.js";
import { rangeParams, rolling } from "./ranges.js";

/**
 * Load an answer over time and keep it up to date.
 * @param {object} context of the view
 * @param {{call: [string, object], choice: object, drawn: (state: {answer: object, series:
 *   object[], call: string, fresh: boolean}) => void, only?: string | null}} given
 *   `drawn` is called after loading (`fresh`) and after every change; `only` names one of the
 * answer's series
 */
export class FollowingSeries {
  constructor(context, { call: [path, params], choice, drawn, only = null }) {
    Object.assign(this, { context, path, params, choice, drawn });
    this.read = (answer) => seriesOf(answer).filter(({ name }) => only == null || name === only);
    this.stopped = new AbortController();
    this.coarse = null; // what was loaded for the whole stretch, if it is thinned
  }

  async load() {
    const { api, stream } = this.context,
      asked = { ...this.params, ...rangeParams(stream, this.choice, this.params.window ?? 1) };
    this.call = api.url(this.path, asked);
    this.answer = await api.get(this.path, asked, this.stopped);
    this.series = this.read(this.answer);
    this.coarse = this.answer.points ? this.series : null;
    this.redraw({ fresh: true });
  }

  /** Draw what is there once more, such as after marks have come. */
  redraw({ fresh = false } = {}) {
    if (!this.answer) return;
    this.drawn({ answer: this.answer, series: this.series, call: this.call, fresh });
  }

  /** Ask for what is newer than the newest unit shown, if the unit that was told is newer. */
  async extend(unit) {
    const last = this.answer?.last;
    if (last == null || unit <= last || (this.choice.range === "dates" && this.choice.to)) return;
    const { api, stream } = this.context;
    const more = await api.get(this.path, { ...this.params, from: last + 1 }, this.stopped);
    const newer = this.read(more),
      length = rolling(stream, this.choice);
    const end = Math.max(...newer.map(({ ends }) => ends.at(-1) ?? -Infinity));
    append(this.series, newer, length ? end - length : -Infinity);
    if (this.coarse && this.coarse !== this.series) append(this.coarse, newer);
    this.answer = { ...this.answer, last: more.last };
    this.redraw();
  }

  /** Replace thinned numbers between two times by all of them, if they are not too many. */
  async refine(from, to) {
    if (!this.coarse) return;
    const [first] = this.coarse,
      units = first.units.filter((_, at) => first.ends[at] > from && first.times[at] < to);
    if (units.length < 2) return;
    if (units.length === first.units.length) {
      if (this.series === this.coarse) return; // all of it is shown already
      this.series = this.coarse;
      this.redraw();
      return;
    }
    const asked = { ...this.params, from: units[0], to: units.at(-1), points: 1000 };
    const finer = await this.context.api.get(this.path, asked, this.stopped);
    this.series = this.coarse.map((one, place) => spliced(one, this.read(finer)[place]));
    this.redraw();
  }

  end() {
    this.stopped.abort();
  }
}

/** A series with the units of a finer one in the place of its own. */
export function spliced(coarse, fine) {
  const first = fine.units[0],
    last = fine.units.at(-1);
  const before = coarse.units.filter((unit) => unit < first).length,
    after = coarse.units.findIndex((unit) => unit > last);
  const found = { name: coarse.name };
  for (const [column, values] of Object.entries(coarse)) {
    if (!Array.isArray(values)) {
      found[column] ??= values;
      continue;
    }
    found[column] = [
      ...values.slice(0, before),
      ...(fine[column] ?? []),
      ...(after < 0 ? [] : values.slice(after)),
    ];
  }
  return found;
}
