// Follows streams: one connection per stream, shared by everything on the page, resumed by unit.
//
// `EventSource` would do most of this. It cannot send the read token, and it gives up for good
// after a 429 or 503. So the connection is a `fetch` whose body is read as server-sent events.
import { readEvents } from "./events.js";

/**
 * A browser opens six connections per server. Further streams are polled, so that three stay free.
 */
export const MAX_CONNECTIONS = 3;
const POLL = 10_000;
const SILENCE = 40_000; // the server writes a comment every 15 seconds
const MAX_PAUSE = 6000;

/**
 * @typedef {"idle" | "connecting" | "live" | "lost" | "older"} LiveState
 * @typedef {{unit: number, link: string | null}} NewUnit
 */

/**
 * @param {ReturnType<import("./api.js").makeApi>} api
 * @param {{fetch?: typeof fetch, page?: Document}} [parts] a test gives its own
 */
export function makeLive(api, { fetch: ask = (...all) => fetch(...all), page = document } = {}) {
  /** @type {Map<string, Connection>} */
  const connections = new Map();
  const watchers = new Set();
  let shown = "idle";

  const tell = () => {
    const states = new Set([...connections.values()].map((connection) => connection.state));
    const state = ["lost", "older", "connecting", "live"].find((one) => states.has(one)) ?? "idle";
    if (state === shown) return;
    const before = shown;
    shown = state;
    for (const watcher of watchers) watcher(state, before);
  };

  /**
   * Call back with each new unit of a stream. After a lost connection, the units in between follow.
   * @param {string} name
   * @param {(unit: NewUnit) => void} callback
   * @param {{after?: number | null}} [known] the newest unit that the page shows already
   * @returns {() => void} stops it
   */
  const on = (name, callback, { after = null } = {}) => {
    let connection = connections.get(name);
    if (!connection) {
      const polled = connections.size >= MAX_CONNECTIONS;
      connection = new Connection({ api, ask, page, name, after, polled, tell });
      connections.set(name, connection);
      tell();
    } else if (after != null && connection.newest && connection.newest.unit > after) {
      queueMicrotask(() => callback(connection.newest));
    }
    connection.callbacks.add(callback);
    return () => {
      connection.callbacks.delete(callback);
      if (connection.callbacks.size) return;
      connection.end();
      connections.delete(name);
      tell();
    };
  };

  /**
   * As `on`, for a callback that takes time: while it works, only the newest unit is remembered.
   * A city in fast motion gives many units per second; each is drawn, not each by itself.
   */
  const follow = (name, callback, known) => {
    let waiting = null,
      working = false,
      ended = false;
    const work = async () => {
      if (working) return;
      working = true;
      while (waiting && !ended) {
        const next = waiting;
        waiting = null;
        try {
          await callback(next);
        } catch (error) {
          if (error.name !== "ApiError" && error.name !== "AbortError") console.error(error);
        }
        await new Promise((done) => {
          setTimeout(done, 150);
        });
      }
      working = false;
    };
    const stop = on(
      name,
      (unit) => {
        waiting = unit;
        work();
      },
      known,
    );
    return () => {
      ended = true;
      stop();
    };
  };

  /** Call back with the state of all connections together, at once and whenever it changes. */
  const onState = (watcher) => {
    watchers.add(watcher);
    watcher(shown, null);
    return () => watchers.delete(watcher);
  };

  return { on, follow, onState };
}

class Connection {
  constructor({ api, ask, page, name, after, polled, tell }) {
    Object.assign(this, { api, ask, page, name, polled, tell });
    this.callbacks = new Set();
    this.state = "connecting";
    this.last = after == null ? null : String(after);
    /** @type {NewUnit | null} */
    this.newest = null;
    this.ended = false;
    this.pause = 1000;
    this.retry = 1000;
    // A page in the background gives its connection back: six are all that a browser has per
    // server.
    this.seen = () => (page.hidden ? this.stop?.abort() : this.wake?.());
    page.addEventListener("visibilitychange", this.seen);
    this.run();
  }

  end() {
    this.ended = true;
    this.page.removeEventListener("visibilitychange", this.seen);
    this.stop?.abort();
    this.wake?.();
  }

  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.tell();
  }

  async run() {
    while (!this.ended) {
      if (this.page.hidden) {
        await this.rest(2 ** 30);
        continue;
      }
      this.stop = new AbortController();
      try {
        if (this.polled) await this.poll();
        else await this.listen();
      } catch {
        /* whatever went wrong, the connection is gone and is opened again */
      }
      if (this.ended) return;
      if (this.page.hidden) continue;
      if (this.polled && this.state === "live") {
        await this.rest(POLL);
        continue;
      }
      this.become("lost");
      await this.rest(this.pause);
      this.pause = Math.min(this.pause * 1.4, MAX_PAUSE);
    }
  }

  async listen() {
    const headers = { Accept: "text/event-stream" };
    if (this.last != null) headers["Last-Event-ID"] = this.last;
    let timer = null;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.stop.abort(), SILENCE);
    };
    heard();
    try {
      const response = await this.ask(`${this.api.streamPath(this.name)}/live`, {
        headers: this.api.headers(headers),
        signal: this.stop.signal,
        cache: "no-store",
      });
      if (!response.ok || !response.body) throw new Error(String(response.status));
      this.pause = this.retry;
      this.become("live");
      for await (const event of readEvents(response.body, heard)) this.take(event);
    } finally {
      clearTimeout(timer);
    }
  }

  async poll() {
    const { newest } = await this.api.get(this.api.streamPath(this.name), {}, this.stop);
    this.become("live");
    if (newest && newest.unit > Number(this.last ?? 0)) this.hear(newest.unit, newest.link);
  }

  take({ id, event, data, retry }) {
    if (retry != null) this.pause = this.retry = retry;
    if (event === "older") return this.become("older");
    if (event !== "unit") return undefined;
    this.become("live");
    const { unit, link } = JSON.parse(data);
    // A unit that is known already is no news: a server that was set back tells it with `older`.
    if (this.last != null && unit <= Number(this.last)) return undefined;
    return this.hear(unit, link, id);
  }

  hear(unit, link, id = null) {
    this.last = id || String(unit);
    this.newest = { unit, link };
    for (const callback of [...this.callbacks]) callback(this.newest);
  }

  rest(milliseconds) {
    return new Promise((done) => {
      const timer = setTimeout(done, Math.min(milliseconds, 2 ** 30));
      this.wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  }
}
