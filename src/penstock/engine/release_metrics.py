"""The newest release of every view in the format of Prometheus: public numbers with intervals.

They are apart from the figures of the publisher (`/metrics`), because they are for other people. A
view shows at most `MAX_KEYS_PER_VIEW` keys: the first ones, or those that the request names. So a
request costs a bounded time and its answer has a bounded length, however large the domain is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from penstock.core.arrays import IntArray
from penstock.core.errors import ConfigurationError
from penstock.core.optional import require
from penstock.core.released import Released
from penstock.engine.publisher import Publisher
from penstock.engine.view_run import ViewRun
from penstock.released.sinks.release_document import numbers

MAX_KEYS_PER_VIEW: Final = 1_000
"""The most keys of a view that one answer shows."""

PURPOSE: Final = "serving releases for Prometheus"


class NewestReleases:
    """The newest releases of some publishers, as gauges.

    Parameters
    ----------
    publishers : iterable of Publisher
        The publishers.
    """

    def __init__(self, publishers: Iterable[Publisher]) -> None:
        self._views = [
            (each.pipeline.stream.name, view) for each in publishers for view in each.views
        ]
        self._places: dict[str, dict[str, int]] = {}

    def gauges(self, keys: Sequence[str] = ()) -> list[Any]:
        """The gauges of this moment.

        Parameters
        ----------
        keys : sequence of str
            The keys to show, in each view that has them. Default: the first keys of each view.
        """
        self._check(keys)
        gauge = require("prometheus_client.core", "serve", PURPOSE).GaugeMetricFamily
        of_views = {
            name: gauge(f"penstock_release_{name}", text, labels=("stream", "view"))
            for name, text in _OF_VIEWS.items()
        }
        of_keys = {
            name: gauge(f"penstock_release_{name}", text, labels=("stream", "view", "key"))
            for name, text in _OF_KEYS.items()
        }
        for stream, view in self._views:
            release, places = view.committed.release, self._chosen(view, keys)
            if release is None or not len(places):
                continue
            labels = (stream, view.view.name)
            for name, number in _facts(release, view, len(places)).items():
                of_views[name].add_metric(labels, float(number))
            found = numbers(release.among(places))
            for i, place in enumerate(places.tolist()):
                if np.isfinite(found.low[i]):  # otherwise nothing was released of it yet
                    each = (*labels, view.series.domain.keys[place])
                    of_keys["value"].add_metric(each, float(found.value[i]))
                    of_keys["low"].add_metric(each, float(found.low[i]))
                    of_keys["high"].add_metric(each, float(found.high[i]))
        return [*of_views.values(), *of_keys.values()]

    def _check(self, keys: Sequence[str]) -> None:
        if len(keys) > MAX_KEYS_PER_VIEW:
            raise ConfigurationError(
                f"key may be given at most {MAX_KEYS_PER_VIEW:,} times.", parameter="key"
            )
        for key in keys:
            if not any(key in self._known(view) for _, view in self._views):
                raise ConfigurationError(
                    f"there is no key {key!r}. Names of nodes have / between their parts.",
                    parameter="key",
                )

    def _chosen(self, view: ViewRun, keys: Sequence[str]) -> IntArray:
        if not keys:
            return np.arange(min(view.series.domain.size, MAX_KEYS_PER_VIEW))
        known = self._known(view)
        return np.array([known[key] for key in dict.fromkeys(keys) if key in known], np.int64)

    def _known(self, view: ViewRun) -> Mapping[str, int]:
        """The place of each key; made once, as a domain may be large."""
        name = view.series.name
        if name not in self._places:
            self._places[name] = {key: i for i, key in enumerate(view.series.domain.keys)}
        return self._places[name]


def _facts(release: Released, view: ViewRun, shown: int) -> dict[str, float]:
    return {
        "unit": release.unit,
        "unit_end_timestamp_seconds": view.view.calendar.end(release.unit).timestamp(),
        "keys": release.value.size,
        "keys_shown": shown,
        "private": release.private,
    }


_OF_VIEWS: Final = {
    "unit": "Number of the unit.",
    "unit_end_timestamp_seconds": "End of the unit.",
    "keys": "Number of keys that the view publishes.",
    "keys_shown": "Number of keys that this answer shows.",
    "private": "1 if all noise came from the system's randomness, 0 after test noise.",
}

_COVERS = (
    "interval: it covers the added noise with at least 95 %. "
    "For estimates of a filter, it is for the count, as the filter believes."
)
_OF_KEYS: Final = {
    "value": "Number of the newest release: counts and added noise.",
    "low": f"Lower end of its {_COVERS}",
    "high": f"Upper end of its {_COVERS}",
}
