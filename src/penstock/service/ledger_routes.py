"""The routes of the read API about the ledger: what every unit cost, and whether that holds."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from pydantic import Field

from penstock.budget.grid import Grid, promised
from penstock.core.errors import ConfigurationError
from penstock.core.unit_range import units_from
from penstock.released.queries.refusal import as_parameter
from penstock.service.answers import MAX_NUMBERS, thinned
from penstock.service.api_errors import ApiError
from penstock.service.descriptions import stream_url
from penstock.service.forms import JSON_FORM, check_json, form_of, path_ending, table_reply
from penstock.service.options import ServiceOptions
from penstock.service.parameters import ApiParameters, NoParameters, PageParameters, StreamName
from penstock.service.replies import json_reply, validity
from penstock.service.schemas import (
    HEAD_EXAMPLE,
    LEDGER_EXAMPLE,
    VERIFICATION_EXAMPLE,
    WINDOWS_EXAMPLE,
    HeadContent,
    LedgerPage,
    VerificationContent,
    WindowCosts,
    described,
)
from penstock.service.streams import ServedStream, ServedStreams
from penstock.service.unit_times import unit_times


class WindowParameters(ApiParameters):
    """How the cost of windows is shown."""

    points: int | None = Field(
        default=None,
        ge=2,
        le=MAX_NUMBERS,
        description="About how many windows are shown: the cheapest and the dearest of each "
        "stretch. Default: all.",
    )


def add_routes(app: FastAPI, streams: ServedStreams, options: ServiceOptions) -> None:
    """Add the routes.

    Parameters
    ----------
    app : FastAPI
        The application.
    streams : ServedStreams
        The streams.
    options : ServiceOptions
        The settings.
    """

    @app.get(
        "/v1/streams/{stream:path}/ledger/windows",
        summary="The cost of every window",
        responses=described(WindowCosts, WINDOWS_EXAMPLE),
    )
    def windows(
        request: Request, stream: StreamName, parameters: Annotated[WindowParameters, Query()]
    ) -> Response:
        check_json(request)
        found = streams.find(stream)
        content = window_content(found, parameters.points)
        link = found.link(content["unit"]) if content["unit"] else "none"
        return json_reply(request, content, validity(link, "windows", parameters.points))

    @app.get(
        "/v1/streams/{stream:path}/ledger/head",
        summary="The newest link of the chain",
        responses=described(HeadContent, HEAD_EXAMPLE),
    )
    def head(request: Request, stream: StreamName, _: Annotated[NoParameters, Query()]) -> Response:
        check_json(request)
        found = streams.find(stream)
        newest = found.signed_head
        signature = None if newest.signature is None else newest.signature.hex()
        content = {"unit": newest.unit, "link": newest.link.hex(), "signature": signature}
        return json_reply(request, content, validity(newest.link.hex(), "head"))

    @app.get(
        "/v1/streams/{stream:path}/ledger/verification",
        summary="Whether the ledger was found to be valid, and when",
        responses=described(VerificationContent, VERIFICATION_EXAMPLE),
    )
    def verification(
        request: Request, stream: StreamName, _: Annotated[NoParameters, Query()]
    ) -> Response:
        check_json(request)
        content = streams.find(stream).verification.content()
        return json_reply(request, content, validity("verification", content))

    @app.get(
        "/v1/streams/{stream:path}/ledger",
        summary="The lines of the ledger",
        responses=described(LedgerPage, LEDGER_EXAMPLE, tables=True),
    )
    def ledger(
        request: Request, stream: StreamName, parameters: Annotated[PageParameters, Query()]
    ) -> Response:
        return ledger_reply(request, streams.find(stream), parameters)


def ledger_reply(request: Request, stream: ServedStream, parameters: PageParameters) -> Response:
    """A page of the ledger, in the form that was asked for.

    Parameters
    ----------
    request : Request
        The request.
    stream : ServedStream
        The stream.
    parameters : PageParameters
        Which units.
    """
    units, after, fixed = page_units(stream, parameters)
    rows = line_rows(stream, units)
    next_url = None
    if after is not None:
        given = urlencode({**parameters.given(), "after": after}, doseq=True)
        next_url = f"{stream_url(stream.name)}/ledger{path_ending(request)}?{given}"
    form = form_of(request)
    last = units[-1] if units else stream.head.unit
    valid = validity(stream.link(last), "ledger", parameters.given(), form, fixed=fixed)
    if form == JSON_FORM:
        return json_reply(request, {"lines": rows, "next": next_url}, valid)
    name = f"{stream.name}-ledger"
    return table_reply(request, form, _table(rows), valid, name=name, next_url=next_url)


def page_units(stream: ServedStream, parameters: PageParameters) -> tuple[range, int | None, bool]:
    """The units of a page, after which unit the next one begins, and whether the page is fixed.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    parameters : PageParameters
        Which units.
    """
    newest = stream.head.unit
    first, until = parameters.from_, parameters.to
    if first is not None and parameters.after is not None:
        raise ConfigurationError("from and after exclude each other: each says where to begin.")
    wanted = units_from(stream.series.calendar, newest, first, until, spelling=as_parameter)
    start = max(wanted.start, (parameters.after or 0) + 1)
    stop = min(wanted.stop, start + parameters.limit)
    if start >= stop:
        return range(start, start), None, False
    more = stop < wanted.stop
    return range(start, stop), stop - 1 if more else None, more


def line_rows(stream: ServedStream, units: range) -> list[dict[str, Any]]:
    """The lines of some units.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    units : range
        The units.
    """
    if not units:
        return []
    grid = Grid.of(stream.series.guarantee)
    rows: list[dict[str, Any]] = []
    amounts: dict[int, str] = {}
    for line in stream.reader.lines(stream.name, units[0], units[-1]):
        if len(rows) >= MAX_NUMBERS:
            raise ApiError(
                413,
                f"these units have more than {MAX_NUMBERS:,} lines. Choose fewer units with limit.",
            )
        amount = amounts.get(line.amount)
        if amount is None:
            amount = amounts[line.amount] = str(line.amount * grid.quantum)
        rows.append(
            {
                "unit": line.unit,
                "kind": line.kind,
                "label": line.label,
                "amount": amount,
                "currency": grid.currency,
            }
        )
    return rows


def _table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    names = ("unit", "kind", "label", "amount", "currency")
    types = [pa.int64(), *[pa.string()] * 4]
    columns = [
        pa.array([row[name] for row in rows], kind) for name, kind in zip(names, types, strict=True)
    ]
    return pa.table(columns, names=list(names))


def window_content(stream: ServedStream, points: int | None) -> dict[str, Any]:
    """The cost of the window that ends with each verified unit.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    points : int or None
        About how many windows are shown; None for all.
    """
    found = stream.verification
    account = found.account
    if account is None:
        if found.problem is not None:
            raise ApiError(503, f"the ledger is not valid: {found.problem}")
        raise ApiError(503, "the ledger is being read. Try again.", retry_after=2)
    guarantee, costs = stream.series.guarantee, account.windows
    quantum = Grid.of(guarantee).quantum
    if points is None and len(costs) > MAX_NUMBERS:
        raise ApiError(413, f"{len(costs):,} windows are too many for one answer: use points.")
    kept = np.arange(len(costs)) if points is None else thinned(costs.astype(float), points)
    exact: dict[int, str] = {}
    for cost in costs[kept].tolist():
        if cost not in exact:
            exact[cost] = str(cost * quantum)
    highest = int(costs.argmax()) if len(costs) else None
    return {
        "unit": found.unit,
        "limit": str(promised(guarantee).amount),
        "limit_number": float(promised(guarantee).amount),
        "currency": Grid.of(guarantee).currency,
        "window": guarantee.window,
        "highest": None
        if highest is None
        else {"unit": highest + 1, "spent": str(int(costs[highest]) * quantum)},
        "units": (kept + 1).tolist(),
        **unit_times(stream.series.calendar, 1, len(costs)).lists(kept),
        "spent": [exact[cost] for cost in costs[kept].tolist()],
        "spent_number": (costs[kept] * float(quantum)).tolist(),
    }
