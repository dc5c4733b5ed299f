// Server-sent events out of a body of bytes, as the HTML standard reads them.

/**
 * @typedef {{id: string | null, event: string, data: string, retry: number | null}} ServerEvent
 * @param {ReadableStream<Uint8Array>} body
 * @param {() => void} [heard] called for every piece that arrives, also for comments
 * @returns {AsyncGenerator<ServerEvent>}
 */
export async function* readEvents(body, heard = () => {}) {
  const reader = body.getReader(),
    decoder = new TextDecoder();
  let rest = "",
    fields = empty();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return; // an event without its empty line is incomplete and does not count
      heard();
      rest += decoder.decode(value, { stream: true });
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line) {
          read(line, fields);
          continue;
        }
        if (fields.data.length || fields.retry != null) {
          yield { ...fields, data: fields.data.join("\n") };
        }
        fields = empty();
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // a connection that is gone cannot be cancelled
  }
}

const empty = () => ({ id: null, event: "message", data: [], retry: null });

function read(line, fields) {
  const [, name, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line);
  if (name === "data") fields.data.push(value ?? "");
  else if (name === "event") fields.event = value ?? "message";
  else if (name === "id") fields.id = value ?? "";
  else if (name === "retry" && /^\d+$/.test(value ?? "")) fields.retry = Number(value);
}
