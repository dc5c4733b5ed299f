// "How sure is this?" under every chart: what the interval means, and what it leaves out.
import { typicalMargin } from "./answers.js";

/**
 * Sentences about an answer and its series, the most important first.
 * @param {object} answer of the API
 * @param {import("./answers.js").Series[]} series
 * @param {{text: Function, format: object, stream?: object}} context
 * @param {"line" | "bars" | "cells"} [form] how the interval is drawn
 */
export function sureness(answer, series, { text, format, stream = null }, form = "line") {
  const filtered = answer.filtered || stream?.filtered; // by the reader's choice, or as released
  const margin = typicalMargin(series),
    share = format.percent(answer.confidence);
  const some = (column) => series.some((one) => one[column]?.some(Boolean));
  const unknown = series.some((one) =>
    one.estimate.some((value, at) => value != null && one.low[at] == null),
  );
  const sentences = [];
  if (margin == null) sentences.push(text("sure.unknown"));
  else {
    sentences.push(
      text(filtered ? "sure.filtered" : "sure.interval", {
        share,
        margin: format.number(margin),
        where: text(`sure.where_${form}`),
      }),
    );
    if (unknown) sentences.push(text("sure.partly"));
  }
  if (!filtered) sentences.push(text("sure.noise"));
  if (some("repeated")) sentences.push(text("sure.repeated"));
  else if (some("unread")) sentences.push(text("sure.unread"));
  if (answer.nonnegative) sentences.push(text("sure.nonnegative"));
  return sentences;
}
