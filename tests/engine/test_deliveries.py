"""The end of a publisher does not wait for sinks that do not answer."""

from __future__ import annotations

import socket
import threading

import pytest

from penstock.engine import deliveries
from penstock.engine.pipeline import Pipeline
from penstock.engine.publisher import Publisher
from penstock.testing import NoNoise

from tests.engine import streams


class SilentReceivers:
    """Addresses that take requests and never answer them."""

    def __init__(self, count):
        self.servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self.left = [threading.Event() for _ in self.servers]
        self.asked = [threading.Event() for _ in self.servers]
        self._threads = [
            threading.Thread(target=self._hear, args=(place,), daemon=True)
            for place in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _hear(self, place):
        connection, _ = self.servers[place].accept()
        with connection:
            self.asked[place].set()
            while connection.recv(65536):
                pass
            self.left[place].set()

    def tables(self):
        return [
            {"kind": "webhook", "name": f"hook {place}", "url": f"http://127.0.0.1:{port}/"}
            for place, server in enumerate(self.servers)
            for port in [server.getsockname()[1]]
        ]


@pytest.fixture
def silent():
    receivers = SilentReceivers(2)
    yield receivers
    for server in receivers.servers:
        server.close()


def test_a_stop_interrupts_every_request_under_way(tmp_path, monkeypatch, silent):
    monkeypatch.setattr(deliveries, "END_SECONDS", 0.05)
    monkeypatch.setattr(deliveries, "INTERRUPT_SECONDS", 60)
    monkeypatch.setattr("penstock.released.sinks.webhook.ANSWER_SECONDS", 600)
    streams.parquet(tmp_path / "taps.parquet", streams.events())
    content = streams.pipeline(stream={"until": "2026-01-01T12:00Z"}, sink=silent.tables())
    ends = []
    with Publisher(Pipeline.of(content, folder=tmp_path), noise=NoNoise) as publisher:
        thread = threading.Thread(target=lambda: ends.append(publisher.run()))
        thread.start()
        for asked in silent.asked:
            assert asked.wait(60)
        publisher.stop()
        thread.join()
    assert ends == [False]
    assert all(left.wait(60) for left in silent.left)
    assert all(delivery.ended for delivery in publisher.deliveries)
