"""The forms of an answer: JSON, CSV, Arrow and Parquet."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request, Response

from penstock.service.api_errors import ApiError
from penstock.service.replies import JSON, Validity, reply

if TYPE_CHECKING:
    import pyarrow

FORM_SCOPE: Final = "penstock.form"
"""The key in the scope of a request that holds the form which the path ends with."""

JSON_FORM, CSV, ARROW, PARQUET = "json", "csv", "arrow", "parquet"
MEDIA_TYPES: Final = {
    JSON_FORM: JSON,
    CSV: "text/csv; charset=utf-8",
    ARROW: "application/vnd.apache.arrow.stream",
    PARQUET: "application/vnd.apache.parquet",
}
_ENDING = re.compile(r"\.(json|csv|arrow|parquet)$", re.ASCII)
_PREFIX = "/v1/streams/"


@dataclass(frozen=True)
class FormatEndings:
    """Takes the form of an answer off the end of its path, before a route is looked for.

    Parameters
    ----------
    app : Any
        The application.
    names : callable
        Gives the names of all streams. A stream may have a name that ends like a form.
    """

    app: Any
    names: Callable[[], tuple[str, ...]]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on."""
        if scope["type"] == "http" and scope["path"].startswith(_PREFIX):
            path = scope["path"]
            found = _ENDING.search(path)
            if found and path.removeprefix(_PREFIX) not in self.names():
                scope["path"] = path[: found.start()]
                scope[FORM_SCOPE] = found[1]
        await self.app(scope, receive, send)


def form_of(request: Request) -> str:
    """The form that a request asks for: by the end of its path, else by its Accept header.

    Parameters
    ----------
    request : Request
        The request.
    """
    told = request.scope.get(FORM_SCOPE)
    if told is not None:
        return str(told)
    plain = {media.partition(";")[0]: form for form, media in MEDIA_TYPES.items()}
    for each in request.headers.get("accept", "").split(","):
        media = each.partition(";")[0].strip().lower()
        if media in plain:
            return plain[media]
    return JSON_FORM


def check_json(request: Request) -> None:
    """Refuse a path that ends with a form which its answer does not have.

    Parameters
    ----------
    request : Request
        The request.
    """
    told = request.scope.get(FORM_SCOPE, JSON_FORM)
    if told != JSON_FORM:
        raise ApiError(404, f"this has no form .{told}: leave the ending out, or write .json.")


def path_ending(request: Request) -> str:
    """The ending of the path, as it was written, for the address of the next page."""
    told = request.scope.get(FORM_SCOPE)
    return "" if told is None else f".{told}"


def table_reply(
    request: Request,
    form: str,
    table: pyarrow.Table,
    valid: Validity,
    *,
    name: str,
    next_url: str | None = None,
) -> Response:
    """A table in one of the forms that are no JSON.

    Parameters
    ----------
    request : Request
        The request.
    form : str
        The form.
    table : pyarrow.Table
        The content.
    valid : Validity
        How long it holds.
    name : str
        The name of the file, without its ending.
    next_url : str, optional
        Where the next page is, for the header `Link`. Default: nowhere.
    """
    body = {CSV: as_csv, ARROW: as_arrow, PARQUET: as_parquet}[form](table)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "answer"
    headers = {"content-disposition": f'attachment; filename="{safe}.{form}"'}
    if next_url is not None:
        headers["link"] = f'<{next_url}>; rel="next"'
    return reply(request, body, MEDIA_TYPES[form], valid, headers)


def as_csv(table: pyarrow.Table) -> bytes:
    """A table as CSV. Times are ISO texts in UTC, so that every spreadsheet reads them.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            moments = table.column(place).cast(pa.timestamp("s", "UTC"), safe=False)
            text = pc.strftime(moments, format="%Y-%m-%dT%H:%M:%SZ")
            table = table.set_column(place, field.name, text)
        elif pa.types.is_floating(field.type):  # what is not known is an empty cell
            column = table.column(place)
            known = pc.if_else(pc.is_finite(column), column, pa.scalar(None, field.type))
            table = table.set_column(place, field.name, known)
    out = io.BytesIO()
    csv.write_csv(table, out, csv.WriteOptions(quoting_style="needed"))
    return out.getvalue()


def as_arrow(table: pyarrow.Table) -> bytes:
    """A table as a stream of Arrow IPC.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    """
    import pyarrow as pa

    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def as_parquet(table: pyarrow.Table) -> bytes:
    """A table as a Parquet file.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    """
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


def with_facts(table: pyarrow.Table, facts: Mapping[str, str]) -> pyarrow.Table:
    """A table with facts in its metadata.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    facts : mapping of str to str
        The facts.
    """
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **facts})
