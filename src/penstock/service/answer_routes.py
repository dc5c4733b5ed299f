"""The routes of the read API about releases and answers."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import FastAPI, Query, Request, Response

from penstock.engine.sink_items import items_of
from penstock.released.sinks.base import ReleaseItem
from penstock.released.sinks.release_document import document, file_facts
from penstock.released.sinks.release_document import table as release_table
from penstock.service.answers import ServedAnswer, answer_content, answer_table, answered
from penstock.service.api_errors import ApiError
from penstock.service.descriptions import stream_url
from penstock.service.forms import (
    JSON_FORM,
    MEDIA_TYPES,
    form_of,
    path_ending,
    table_reply,
    with_facts,
)
from penstock.service.options import ServiceOptions
from penstock.service.parameters import (
    AnswerParameters,
    NoParameters,
    NumberParameters,
    QuestionName,
    StreamName,
    UnitNumber,
)
from penstock.service.replies import Validity, has, json_reply, reply, validity
from penstock.service.schemas import ANSWER_EXAMPLE, DOCUMENT_EXAMPLE, AnswerContent, described
from penstock.service.streams import ServedStream, ServedStreams


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
        "/v1/streams/{stream:path}/releases/{unit}",
        summary="The release of one unit",
        responses=described(None, DOCUMENT_EXAMPLE, tables=True),
    )
    def one_release(
        request: Request,
        stream: StreamName,
        unit: UnitNumber,
        _: Annotated[NoParameters, Query()],
    ) -> Response:
        found, form = streams.find(stream), form_of(request)
        item = release_item(found, unit)
        valid = validity(item.link, *([] if form == JSON_FORM else [form]), fixed=True)
        if form == JSON_FORM:
            return json_reply(request, document(item), valid)
        table = with_facts(release_table(item), file_facts([item]))
        return table_reply(request, form, table, valid, name=f"{stream}-{unit}")

    @app.get(
        "/v1/streams/{stream:path}/releases",
        summary="Released numbers",
        responses=described(AnswerContent, ANSWER_EXAMPLE, tables=True),
    )
    def releases(
        request: Request, stream: StreamName, parameters: Annotated[NumberParameters, Query()]
    ) -> Response:
        return _numbers(request, streams.find(stream), "counts", parameters, "releases")

    @app.get(
        "/v1/streams/{stream:path}/answers/{question}",
        summary="The answer to a question",
        responses=described(AnswerContent, ANSWER_EXAMPLE, tables=True),
    )
    def answers(
        request: Request,
        stream: StreamName,
        question: QuestionName,
        parameters: Annotated[AnswerParameters, Query()],
    ) -> Response:
        return _numbers(request, streams.find(stream), question, parameters, f"answers/{question}")


def _numbers(
    request: Request,
    stream: ServedStream,
    question: str,
    parameters: NumberParameters,
    path: str,
) -> Response:
    form = form_of(request)
    found = answered(stream, parameters.request(question))
    next_url = next_page(found, parameters, f"{path}{path_ending(request)}")
    valid = answer_validity(found, form)
    if has(request, valid) is not None:
        return reply(request, b"", MEDIA_TYPES[form], valid)
    if form == JSON_FORM:
        return json_reply(request, answer_content(found, next_url=next_url), valid)
    name = f"{stream.name}-{path.rpartition('/')[2]}"
    return table_reply(request, form, answer_table(found), valid, name=name, next_url=next_url)


def release_item(stream: ServedStream, unit: int) -> ReleaseItem:
    """The release of one unit, as sinks take it.

    Parameters
    ----------
    stream : ServedStream
        The stream.
    unit : int
        The unit.
    """
    if unit > stream.head.unit:
        raise ApiError(404, f"unit {unit} is not released yet: the newest is {stream.head.unit}.")
    if stream.series.calendar is None:
        raise ApiError(
            404,
            "the units of this stream have no times, so that they have no documents. Ask "
            f"{stream_url(stream.name)}/releases?unit={unit} instead.",
        )
    return items_of(stream.reader, stream.series, unit, unit)[0]


def next_page(found: ServedAnswer, parameters: NumberParameters, path: str) -> str | None:
    """Where the next page of an answer is; None if there is none yet.

    Parameters
    ----------
    found : ServedAnswer
        The answer.
    parameters : NumberParameters
        Its parameters.
    path : str
        The path below the stream.
    """
    if found.next_after is None:
        return None
    given = {**parameters.given(), "after": found.next_after}
    return f"{stream_url(found.stream.name)}/{path}?{urlencode(given, doseq=True)}"


def answer_validity(found: ServedAnswer, *form: str) -> Validity:
    """How long an answer holds.

    Parameters
    ----------
    found : ServedAnswer
        The answer.
    form : str
        Its form, if that is not JSON.
    """
    last = found.newest if found.request.options.hindsight else found.last
    link = found.stream.link(last)
    parts = (found.request.question, found.request.given, found.first, *form)
    return validity(link, *parts, fixed=found.fixed)
