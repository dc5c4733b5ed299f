"""Following streams live: what is resumed, what is shown, and how often a server is asked.

The network is a function of the test; time is the browser's clock, which the test moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import needs_chromium
from tests.service.browser.modules import Modules

pytestmark = [needs_chromium, pytest.mark.slow]

NETWORK = """
window.asked = []; window.open = []; window.refuse = false; window.heard = []; window.states = [];
const { makeApi } = await import("/assets/api.js");
window.newest = 1;
const ask = async (address, { headers = {}, signal } = {}) => {
  asked.push([address, headers["Last-Event-ID"] ?? null, headers.Authorization ?? null]);
  if (refuse) throw new TypeError("refused");
  if (!address.endsWith("/live")) return new Response(JSON.stringify({ newest: { unit: newest,
    link: "x" } }));
  const body = new ReadableStream({ start(stream) {
    open.push(stream);
    signal?.addEventListener("abort", () => stream.error(new DOMException("gone", "AbortError")));
  } });
  return new Response(body);
};
window.say = (text, at = open.length - 1) => open[at].enqueue(new TextEncoder().encode(text));
window.unit = (number, at) =>
  say(`id: ${number}\\nevent: unit\\ndata: {"unit":${number},"link":"l"}\\n\\n`, at);
window.gone = (at = open.length - 1) => open[at].error(new TypeError("gone"));
window.live = makeLive(makeApi({ fetch: ask, token: () => given?.token ?? null }), { fetch: ask });
live.onState((state) => states.push(state));
"""


class Following:
    """A page that follows streams of a network that the test controls."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        modules.page.clock.install()

    def start(self, token: str | None = None) -> None:
        self.modules.run("{ makeLive } from live.js", NETWORK, {"token": token})

    def run(self, script: str) -> Any:
        """Run a script, and let everything settle that it has caused."""
        self.modules.page.evaluate(f"() => {{ {script} }}")
        return self.wait(0)

    def wait(self, milliseconds: int) -> Any:
        self.modules.page.clock.run_for(milliseconds)
        self.modules.page.evaluate(
            "async () => { for (let turn = 0; turn < 50; turn += 1) await Promise.resolve(); }"
        )
        return self.get("heard")

    def get(self, name: str) -> Any:
        return self.modules.page.evaluate(name)

    def until(self, condition: str) -> None:
        """Wait for what happens beyond the microtasks of the page, such as reading a stream."""
        self.modules.page.wait_for_function(f"() => {condition}", polling=10)


@pytest.fixture
def following(modules: Modules) -> Iterator[Following]:
    yield Following(modules)
    modules.complaints.clear()  # a connection that is torn down may be named


FOLLOW = "window.stop = live.on('taps/hourly', ({ unit }) => heard.push(unit), { after: 7 });"


def test_a_stream_is_followed_from_the_unit_that_is_shown(following: Following) -> None:
    following.start(token="secret")
    following.run(FOLLOW)
    following.until("open.length === 1")
    assert following.get("asked") == [["/v1/streams/taps/hourly/live", "7", "Bearer secret"]]
    following.run("say('retry: 2000\\n\\n'); unit(8); unit(9)")
    following.until("heard.length === 2")
    assert following.get("heard") == [8, 9]
    assert following.get("states") == ["idle", "connecting", "live"]


def test_a_lost_connection_is_shown_and_resumed_after_the_last_unit(following: Following) -> None:
    following.start()
    following.run(FOLLOW)
    following.until("open.length === 1")
    following.run("unit(8)")
    following.until("heard.length === 1")
    following.run("refuse = true; gone()")
    following.until("states.at(-1) === 'lost'")
    following.wait(5000)
    tries = len(following.get("asked"))
    assert tries >= 2
    following.run("refuse = false")
    following.wait(10_000)
    following.until("states.at(-1) === 'live'")
    assert following.get("asked")[-1][1] == "8"
    following.run("unit(9)")
    following.until("heard.length === 2")
    assert following.get("heard") == [8, 9]


def test_tries_become_rarer_but_never_stop(following: Following) -> None:
    following.start()
    following.run(f"refuse = true; {FOLLOW}")
    counts = []
    for _ in range(4):
        before = len(following.get("asked"))
        for _ in range(60):
            following.wait(1000)
        counts.append(len(following.get("asked")) - before)
    assert counts[0] > counts[-1] > 5
    assert counts[-1] <= 12


def test_a_server_that_was_set_back_tells_no_numbers(following: Following) -> None:
    following.start()
    following.run(FOLLOW)
    following.until("open.length === 1")
    following.run("say('event: older\\ndata: {}\\n\\n'); unit(5); unit(6)")
    following.until("states.includes('older')")
    following.run("unit(8)")
    following.until("heard.length === 1")
    assert following.get("heard") == [8]
    assert following.get("states")[-1] == "live"


def test_a_connection_that_is_silent_for_too_long_is_opened_again(following: Following) -> None:
    following.start()
    following.run(FOLLOW)
    following.until("open.length === 1")
    for _ in range(3):
        following.wait(15_000)
        following.run("say(': still here\\n\\n')")
        following.wait(10)
    assert following.get("open.length") == 1
    following.wait(41_000)
    following.until("states.includes('lost')")
    following.wait(3000)
    following.until("open.length === 2")


def test_a_page_in_the_background_gives_its_connection_back(following: Following) -> None:
    following.start()
    following.run(FOLLOW)
    following.until("open.length === 1")
    hide = """
    Object.defineProperty(document, "hidden", {{ value: {}, configurable: true }});
    document.dispatchEvent(new Event("visibilitychange"));
    """
    following.run(hide.format("true"))
    following.wait(60_000)
    assert following.get("open.length") == 1
    following.run(hide.format("false"))
    following.until("open.length === 2")
    assert following.get("asked")[-1][1] == "7"
    assert "lost" not in following.get("states")


def test_everything_on_a_page_shares_the_connection_of_a_stream(following: Following) -> None:
    following.start()
    following.run(FOLLOW)
    following.until("open.length === 1")
    following.run("unit(8)")
    following.until("heard.length === 1")
    following.run("live.on('taps/hourly', ({ unit }) => heard.push(-unit), { after: 7 })")
    following.until("heard.length === 2")
    assert following.get("heard") == [8, -8]
    assert following.get("open.length") == 1
    following.run("stop(); unit(9)")
    following.until("heard.length === 3")
    assert following.get("heard") == [8, -8, -9]


def test_many_streams_leave_connections_free(following: Following) -> None:
    """A browser has six per server; streams beyond the third are polled."""
    following.start()
    following.run(
        "for (const name of 'abcde') live.on(name, ({ unit }) => heard.push(name + unit));"
    )
    following.until("asked.length === 5")
    assert following.get("open.length") == 3
    following.until("heard.length === 2")
    assert sorted(following.get("heard")) == ["d1", "e1"]
    following.run("newest = 2")
    following.wait(10_500)
    following.until("heard.length === 4")
    assert sorted(following.get("heard")) == ["d1", "d2", "e1", "e2"]


def test_slow_work_gets_the_newest_unit_only(following: Following) -> None:
    following.start()
    following.run(
        """live.follow("a", async ({ unit }) => {
          heard.push(unit);
          await new Promise((done) => { window.done = done; });
        });"""
    )
    following.until("open.length === 1")
    following.run("for (const number of [1, 2, 3, 4, 5]) unit(number)")
    following.until("heard.length === 1")
    following.run("done()")
    following.wait(500)
    following.until("heard.length === 2")
    first, second = following.get("heard")
    assert first < second == 5
