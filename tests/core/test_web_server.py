"""A server under attack, in a loop whose clock the test sets: no real time passes."""

from __future__ import annotations

import asyncio
import logging
import resource
from contextlib import suppress
from types import SimpleNamespace

import pytest

from penstock.core import connections
from penstock.core.connections import ConnectionLimits, ConnectionTable, ConnectionTally, Phase
from penstock.core.web_server import WebServer

LARGE = 64 * 2**20
NOW = b"GET /now HTTP/1.1\r\nhost: test\r\n\r\n"
WAIT = b"GET /wait HTTP/1.1\r\nhost: test\r\n\r\n"
HALF = b"GET /now HTTP/1.1\r\nho"


class SteppedLoop(asyncio.SelectorEventLoop):
    """A loop whose time moves only when a test says so."""

    now = 1000.0

    def time(self):
        return self.now


def body(size, path="body"):
    return f"POST /{path} HTTP/1.1\r\nhost: test\r\ncontent-length: {size}\r\n\r\n".encode()


class Sender:
    """One connection to the server."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def send(self, data):
        self.writer.write(data)

    async def status(self):
        """The status of the next answer; None if the connection was closed before it."""
        try:
            line = await self.reader.readuntil(b"\r\n\r\n")
            length = line.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            await self.reader.readexactly(int(length))
        except (ConnectionResetError, asyncio.IncompleteReadError):
            return None
        return int(line.split()[1])

    async def asks(self, request=NOW):
        self.send(request)
        return await self.status()

    async def closed(self):
        with suppress(ConnectionResetError):
            assert await self.reader.read() == b""
        return True


class Here:
    """The server, its senders and the time."""

    def __init__(self, server, go_on):
        self.server, self.go_on, self.loop = server, go_on, asyncio.get_running_loop()
        self.table = server.table
        self.senders = []

    async def sender(self, peer=1, **more):
        """A new connection from the address 127.0.0.`peer`."""
        streams = await asyncio.open_connection(
            *self.server.address, local_addr=(f"127.0.0.{peer}", 0), **more
        )
        self.senders.append(Sender(*streams))
        return self.senders[-1]

    async def until(self, condition):
        """Wait for something that must happen without any time passing."""
        for _ in range(10_000):
            if condition():
                return
            await asyncio.sleep(0)
        pytest.fail("it did not happen")

    async def in_phase(self, phase, count):
        await self.until(lambda: self.table.count(phase) == count)

    async def advance(self, seconds, step=0.5):
        end = self.loop.now + seconds
        while self.loop.now < end:
            self.loop.now = min(self.loop.now + step, end)
            for _ in range(10):
                await asyncio.sleep(0)

    @property
    def counts(self):
        return self.table.tally.for_operator()


def attacked(scenario, *, tls=None, connections=100, per_peer=100, **limits):
    """Run a scenario against a server."""

    async def run():
        go_on = asyncio.Event()
        server = WebServer(
            application(go_on),
            host="127.0.0.1",
            port=0,
            key="listen",
            name="test",
            limits=ConnectionLimits(
                connections=connections, per_peer=per_peer, spare_files=64, **limits
            ),
            grace=1,
            purpose="a test",
            tls=tls,
        )
        serving = asyncio.create_task(server.serve())
        here = Here(server, go_on)
        try:
            await scenario(here)
        finally:
            go_on.set()
            server.stop()
            for sender in here.senders:
                sender.writer.transport.abort()
            while not serving.done():
                await here.advance(0.1)
        assert len(here.table) == 0

    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        runner.run(run())


def application(go_on):
    async def answer(scope, receive, send):
        if scope["path"] == "/body":
            while (message := await receive()).get("more_body"):
                pass
            if message["type"] == "http.disconnect":
                return
        if scope["path"] == "/wait":
            await go_on.wait()
        content = b"x" * (LARGE if scope["path"] == "/large" else 2)
        headers = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    return answer


# -- time ------------------------------------------------------------------------------------------


def test_the_head_of_a_first_request_must_come_in_time():
    async def scenario(here):
        silent, slow, dripping = [await here.sender() for _ in range(3)]
        slow.send(HALF)
        for letter in (b"G", b"E", b"T", b" ", b"/"):
            dripping.send(letter)
            await here.advance(1.9)
        assert here.table.count(Phase.OPENING) == 3
        await here.advance(1.5)
        assert await silent.closed()
        assert await slow.status() == await dripping.status() == 408
        assert await slow.closed()
        assert here.counts == {"slow": 3}

    attacked(scenario, head=10)


def test_the_head_of_every_later_request_must_come_in_time():
    async def scenario(here):
        sender = await here.sender()
        assert await sender.asks() == 200
        await here.advance(60)
        assert await sender.asks(NOW + HALF) == 200
        await here.in_phase(Phase.OPENING, 1)
        await here.advance(9)
        sender.send(b"st: te")
        await here.advance(2)
        assert await sender.status() == 408
        assert await sender.closed()

    attacked(scenario, head=10, idle=75)


def test_requests_in_one_piece_each_have_their_own_time():
    async def scenario(here):
        sender = await here.sender()
        sender.send(NOW + body(3) + b"abc" + NOW + body(10))
        assert [await sender.status() for _ in range(3)] == [200] * 3
        await here.in_phase(Phase.BODY, 1)
        await here.advance(4)
        sender.send(b"0123456789")
        assert await sender.status() == 200
        await here.in_phase(Phase.IDLE, 1)

    attacked(scenario)


def test_a_body_must_come_in_time():
    async def scenario(here):
        sender = await here.sender()
        sender.send(body(2**20))
        for _ in range(29):
            sender.send(b"x" * 2000)
            await here.advance(1)
        assert here.table.count(Phase.BODY) == 1
        await here.advance(2)
        assert await sender.status() == 408
        assert await sender.closed()
        assert here.counts == {"slow": 1}

    attacked(scenario, body=30)


def test_a_body_that_drips_is_given_up_earlier():
    async def scenario(here):
        sender = await here.sender()
        sender.send(body(2**20))
        for _ in range(7):
            sender.send(b"x" * 900)
            await here.advance(1)
        assert await sender.status() == 408

    attacked(scenario, body=30, rate=1024)


@pytest.mark.parametrize("drip", [b"", b"x"])
def test_the_rest_of_a_body_that_was_answered_early_must_come_in_time(drip):
    async def scenario(here):
        sender = await here.sender()
        assert await sender.asks(body(1000, "now")) == 200
        await here.in_phase(Phase.REST, 1)
        for _ in range(7):
            sender.send(drip)
            await here.advance(1)
        assert await sender.closed()

    attacked(scenario)


def test_the_rest_of_a_body_is_dropped_and_the_next_request_is_answered():
    async def scenario(here):
        sender = await here.sender()
        assert await sender.asks(body(300_000, "now")) == 200
        sender.send(b"x" * 300_000)
        assert await sender.asks() == 200

    attacked(scenario)


def test_a_connection_without_requests_is_closed():
    async def scenario(here):
        sender = await here.sender()
        for _ in range(3):
            assert await sender.asks() == 200
            await here.advance(70)
        await here.advance(6)
        assert await sender.closed()
        assert here.counts == {}

    attacked(scenario, idle=75)


def test_an_answer_that_nobody_reads_is_given_up():
    async def scenario(here):
        sender = await here.sender(limit=1)
        sender.send(b"GET /large HTTP/1.1\r\nhost: test\r\n\r\n")
        await here.until(lambda: len(here.table) and not here.table.count(Phase.OPENING))
        sender.writer.transport.pause_reading()
        await here.advance(80)
        await here.until(lambda: not len(here.table))

    attacked(scenario, idle=70, answer=60)


# -- numbers ---------------------------------------------------------------------------------------


def test_slow_second_requests_shut_nobody_out():
    async def scenario(here):
        for number in range(60):
            attacker = await here.sender(2 + number % 5)
            assert await attacker.asks() == 200
            attacker.send(HALF)
        await here.in_phase(Phase.OPENING, 20)
        for _ in range(30):
            assert await (await here.sender()).asks() == 200

    attacked(scenario, connections=20, per_peer=10)


def test_a_peer_displaces_its_own_connections_and_not_those_of_others():
    async def scenario(here):
        other, *mine = [await here.sender(peer) for peer in (9, 1, 1, 1)]
        for each in (other, *mine):
            assert await each.asks() == 200
        assert await (await here.sender()).asks() == 200
        assert await mine[0].closed()
        assert [await each.asks() for each in (other, *mine[1:])] == [200] * 3
        assert here.counts == {"displaced": 1}

    attacked(scenario, per_peer=3)


def test_idle_connections_make_room_first_and_the_oldest_first_of_all():
    async def scenario(here):
        first, second = await here.sender(1), await here.sender(2)
        half, waiting = await here.sender(3), await here.sender(4)
        half.send(HALF)
        waiting.send(WAIT)
        for each in (first, second, first):
            assert await each.asks() == 200
        await here.in_phase(Phase.ANSWER, 1)
        for victim in (second, first, half):
            new = await here.sender(5)
            new.send(WAIT)
            assert await victim.closed()
            await here.in_phase(Phase.OPENING, int(victim is not half))
        assert await (await here.sender(6)).closed()
        assert here.counts == {"displaced": 3, "refused": 1}
        here.go_on.set()
        assert await waiting.status() == 200

    attacked(scenario, connections=4)


def test_a_peer_whose_requests_all_wait_for_answers_gets_no_further_connection():
    async def scenario(here):
        waiting = [await here.sender() for _ in range(2)]
        for each in waiting:
            each.send(WAIT)
        await here.in_phase(Phase.ANSWER, 2)
        assert await (await here.sender()).closed()
        assert await (await here.sender(2)).asks() == 200
        here.go_on.set()
        assert [await each.status() for each in waiting] == [200, 200]

    attacked(scenario, per_peer=2)


class Transport:
    """As much of a transport as the table looks at."""

    def __init__(self, host="10.0.0.1", file=10):
        self.file, self.host, self.aborted = file, host, False

    def get_extra_info(self, name):
        return {"peername": (self.host, 1), "socket": SimpleNamespace(fileno=lambda: self.file)}[
            name
        ]

    def abort(self):
        self.aborted = True


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
    ],
)
def test_an_ipv6_peer_is_a_network_of_64_bits(first, second, same):
    peers = [connections.peer_of(Transport(host)) for host in (first, second)]
    assert (peers[0] == peers[1]) is same


def test_senders_leave_files_to_the_rest_of_the_process():
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limits = ConnectionLimits(connections=10**6, per_peer=10**6, spare_files=64)
    table = ConnectionTable(limits=limits, tally=ConnectionTally("test"))
    first = Transport(file=files - 65)
    assert table.admit(first, lambda: None)
    assert table.admit(Transport(file=files - 64), lambda: None)
    assert first.aborted
    table.abort(*Phase)
    assert table.admit(Transport(file=files - 64), lambda: None) is None


# -- what is told ----------------------------------------------------------------------------------


def test_malformed_requests_are_counted_and_told_once_a_minute(caplog):
    caplog.set_level(logging.INFO)

    async def scenario(here):
        for turn in range(3):
            for request in (b"s3cret / HTTP/9\r\n\r\n", b"\x16\x03\x01s3cret\r\n\r\n", b"\r\n\r\n"):
                assert await (await here.sender()).asks(request) == 400
            bad = await here.sender()
            head = b"POST /body HTTP/1.1\r\nhost: s3cret\r\ntransfer-encoding: chunked\r\n\r\n"
            assert await bad.asks(head + b"s3cret\r\n") == 400
            after = await here.sender()
            assert await after.asks(head.replace(b"/body", b"/now")) == 200
            after.send(b"s3cret\r\n")
            assert await after.closed()
            await here.advance(25)
            assert here.counts == {"malformed": 5 * (turn + 1)}
        await here.advance(30)

    attacked(scenario)
    assert [record.getMessage() for record in caplog.records] == [
        "test: requests or connections since the last notice: 5 malformed.",
        "test: requests or connections since the last notice: 10 malformed.",
    ]


def test_an_upgrade_that_is_not_offered_fills_no_log(caplog):
    caplog.set_level(logging.INFO)

    async def scenario(here):
        upgrade = b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"
        for _ in range(3):
            assert (
                await (await here.sender()).asks(NOW.replace(b"\r\n\r\n", b"\r\n" + upgrade)) == 200
            )

    attacked(scenario)
    assert caplog.records == []
