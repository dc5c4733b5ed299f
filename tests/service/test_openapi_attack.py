"""schemathesis asks everything that the OpenAPI document allows, and much that it does not.

Every status, header, media type and content must be as the document says. One check is left out:
that whatever fits the document is accepted. Parameters exclude each other, and a question needs
some of them; OpenAPI has no words for that, and 422 says it in a sentence.
"""

from __future__ import annotations

from contextlib import suppress

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import positive_data_acceptance

from penstock.service.openapi import LIVE_PATH

from tests.service.published import KEYS, PublishedStore, sealed_store, service

KNOWN = {
    "stream": {"enum": ["taps", "taps/hourly", "nothing"]},
    "question": {"enum": ["counts", "sum", "decay", "jump", "drop", "change", "low", "top", "x"]},
    "key": {"type": "array", "items": {"enum": [*KEYS, "nobody"]}, "maxItems": 3},
}
"""Names that lead somewhere: a made-up stream is hardly ever one that there is."""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """A service over two short streams."""
    folder = tmp_path_factory.mktemp("attacked")
    with sealed_store(folder / "taps.db") as store:
        PublishedStore(store).grow(20)
        PublishedStore(store, name="taps/hourly", seed=2).grow(3)
    with service(folder / "taps.db", folder / "copy") as server:
        yield server.url


def operations(url, *, known):
    """All operations of the service, but the one whose answer has no end."""
    document = httpx.get(f"{url}/v1/openapi.json", timeout=60).json()
    del document["paths"][LIVE_PATH]
    for path in document["paths"].values():
        for parameter in path["get"].get("parameters", ()) if known else ():
            parameter["schema"] = known_values(parameter)
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=url)
    return [found.ok() for found in schema.get_all_operations()]


def known_values(parameter):
    """The schema of a parameter with names that lead somewhere, one or several as it takes them."""
    own = parameter["schema"]
    found = KNOWN.get(parameter["name"], own)
    return found["items"] if "items" in found and own.get("type") != "array" else found


def attack(url, operation, mode, examples):
    """Ask one operation many times. Every answer must be as the document says.

    Returns the statuses. An operation that takes any text cannot be asked wrongly.
    """
    statuses = []

    @settings(
        max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None, database=None
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def asked(case):
        answer = case.call_and_validate(base_url=url, excluded_checks=[positive_data_acceptance])
        statuses.append(answer.status_code)

    with suppress(*([Unsatisfiable] if mode is GenerationMode.NEGATIVE else [])):
        asked()
    return statuses


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False], ids=["known names", "any names"])
def test_nothing_is_found(attacked, known):
    found = operations(attacked, known=known)
    statuses = [
        status
        for operation in found
        for mode in GenerationMode
        for status in attack(attacked, operation, mode, examples=5)
    ]
    assert set(statuses) >= ({200, 404, 422} if known else {404, 422})


@pytest.mark.nightly
@pytest.mark.timeout(0)  # thousands of requests: the limit of other tests would end it
@pytest.mark.parametrize("known", [True, False], ids=["known names", "any names"])
def test_nothing_is_found_all_night(attacked, known):
    for operation in operations(attacked, known=known):
        for mode in GenerationMode:
            attack(attacked, operation, mode, examples=1000)
