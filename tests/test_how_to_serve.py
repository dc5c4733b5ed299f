"""docs/how-to/serve.md and docs/reference/api.md: every request and every setting works."""

from __future__ import annotations

import re
import tomllib

import pytest

from penstock.engine.pipeline import Pipeline
from penstock.private.sources.http import KIND as HTTP_SOURCE
from penstock.service.options import LISTEN

from tests.following import DOCS, blocks
from tests.service.published import PublishedStore, client, sealed_store, service

PAGES = ("how-to/serve.md", "reference/api.md")


@pytest.fixture(scope="module")
def asking(tmp_path_factory):
    """A client of a service over ten days of taps."""
    folder = tmp_path_factory.mktemp("how-to")
    with sealed_store(folder / "taps.db") as store:
        PublishedStore(store).grow(240)
    with service(folder / "taps.db", folder / "copy") as server, client(server) as found:
        yield found


@pytest.mark.parametrize("page", PAGES)
def test_every_request_on_the_page_is_answered(page, asking):
    requests = re.findall(r"^GET (\S+)$", "".join(blocks(page, "http")), re.MULTILINE)
    assert len(requests) > 5
    for request in requests:
        answer = asking.get(request)
        while answer.status_code == 503:  # the ledger is being read
            answer = asking.get(request)
        assert answer.status_code == 200, (request, answer.text)


def test_the_reference_names_every_path_and_every_parameter(asking):
    page = (DOCS / "reference/api.md").read_text(encoding="utf-8")
    document = asking.get("/v1/openapi.json").json()
    for path, operation in document["paths"].items():
        assert f"| `{path}` |" in page
        for parameter in operation["get"].get("parameters", ()):
            if parameter["in"] == "query":
                assert f"`{parameter['name']}`" in page, (path, parameter["name"])


def test_the_settings_on_the_page_are_known():
    (text,) = blocks("how-to/serve.md", "toml")
    content = {
        "stream": {"name": "taps", "every": "1h", "origin": "2026-01-01"},
        "source": {"kind": "csv", "path": "taps.csv", "time": "ts", "key": "station"},
        "domain": {"keys": ["north"]},
        "privacy": {"mechanism": "ba", "epsilon": "1", "window": "1d"},
        **tomllib.loads(text),
    }
    assert Pipeline.of(content).service.events[0].text == "Cup final"


def test_serve_has_another_port_than_the_publisher_of_the_page():
    """`penstock serve taps.toml` works beside `penstock run taps.toml`, without any option."""
    published = tomllib.loads(blocks("how-to/run.md", "toml")[0])
    (event_port,) = (each.default for each in HTTP_SOURCE.options if each.name == "listen")
    taken = {event_port, published["source"]["listen"], published["operator"]["metrics"]}
    ports = {address.rpartition(":")[2] for address in taken}
    assert len(ports) == 2
    assert LISTEN.rpartition(":")[2] not in ports
