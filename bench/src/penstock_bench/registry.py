"""The suites by name."""

from __future__ import annotations

from penstock.core.errors import ConfigurationError
from penstock_bench.suite import Suite
from penstock_bench.suites.dsat import Dsat
from penstock_bench.suites.eshp import Eshp
from penstock_bench.suites.hierarchy import OverHierarchies
from penstock_bench.suites.pegasus import PegasusSuite
from penstock_bench.suites.rg import RetroactiveGroups
from penstock_bench.suites.w_event import WEvent
from penstock_bench.suites.windows import Windows

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        WEvent(),
        RetroactiveGroups(),
        PegasusSuite(),
        OverHierarchies(),
        Dsat(),
        Eshp(),
        Windows(),
    )
}


def find_suite(name: str) -> Suite:
    """Find a suite by name.

    >>> find_suite("w-event").title
    'w-event privacy'
    >>> find_suite("w")
    Traceback (most recent call last):
    penstock.core.errors.ConfigurationError: there is no suite 'w': use w-event, ...
    """
    if name not in SUITES:
        raise ConfigurationError(f"there is no suite {name!r}: use {', '.join(SUITES)}.")
    return SUITES[name]
