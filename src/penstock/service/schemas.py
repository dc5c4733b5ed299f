"""The answers of the read API, as its OpenAPI document describes them. Needs pydantic, which comes
with FastAPI (extra `serve`).

The application writes answers itself. These models only describe them, and a test holds each answer
to its model.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.service.forms import ARROW, MEDIA_TYPES, PARQUET

LINK = "ab72aa5aadd8ff100567b75803453006b12a2ddf17110a1f452aa9ebb1e7ea36"
"""A link, for examples."""

Number = int | float | None


class Described(BaseModel):
    """A part of an answer. It has these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class ErrorContent(Described):
    """A request that is not answered."""

    error: str = Field(description="A sentence that says what to do.")
    nearest: str | None = Field(description="The nearest name, where a name is unknown.")


class MapContent(Described):
    url: str
    key: str = Field(description="The property of a place that holds its key.")


class AboutContent(Described):
    """What the service is."""

    penstock: str = Field(description="The version.")
    title: str
    streams_url: str
    openapi_url: str
    map: MapContent | None
    languages: list[str]
    language: str


class HealthContent(Described):
    status: Literal["ok"]


class NewestUnit(Described):
    unit: int
    begins: str | None = Field(description="Its first instant, in UTC.")
    ends: str | None = Field(description="The first instant after it, in UTC.")
    link: str = Field(description="The link of the chain after it, in hexadecimal digits.")


class AttributeContent(Described):
    name: str
    values: list[str]


class GapContent(Described):
    """Something that the promise does not cover."""

    kind: str
    values: dict[str, Any]
    text: str


class PromiseContent(Described):
    """What is promised, in words and in exact amounts."""

    words: str
    not_protected: list[str]
    gaps: list[GapContent] = Field(description="The same by kind, for texts in other languages.")
    epsilon: str = Field(description="An exact fraction.")
    delta: str = Field(description="An exact fraction.")
    window: int = Field(description="Consecutive units in which a person is protected.")
    window_words: str
    window_seconds: int | None = Field(description="The length of a window; null where it differs.")
    contribution: int
    horizon: int | None
    intrusion: str
    currency: Literal["epsilon", "rho"]
    limit: str = Field(description="The limit of a window of this stream, in its currency.")


class CatchingUp(Described):
    unit: int = Field(description="How far the copy by key has come.")


class StreamContent(Described):
    """One stream, or one view of a stream."""

    name: str
    url: str
    mechanism: str
    every: str | None
    every_words: str
    seconds: int | None = Field(description="The length of a unit; null for days and longer.")
    zone: str | None
    keys: int
    first_unit: int
    units: int
    newest: NewestUnit | None
    hierarchy: bool
    attributes: list[AttributeContent] | None
    filtered: bool = Field(description="Whether the released numbers are those of a filter.")
    promise: PromiseContent
    live: str
    catching_up: CatchingUp | None


class StreamList(Described):
    streams: list[StreamContent]


class QuestionParameter(Described):
    name: str
    required: bool
    words: str


class QuestionContent(Described):
    question: str
    url: str
    words: str
    why_not: str | None = Field(description="Why it cannot be answered; null if it can.")
    parameters: list[QuestionParameter]


class TimelineContent(Described):
    at: str
    unit: int | None
    text: str


class StreamDetails(StreamContent):
    """All that there is to know of a stream."""

    questions: list[QuestionContent]
    configuration: dict[str, str]
    events: list[TimelineContent]


class KeyContent(Described):
    key: str
    parent: str | None
    children: int
    depth: int


class KeyList(Described):
    """A page of keys, in the order of releases."""

    keys: list[KeyContent]
    next: str | None
    total: int


class SeriesContent(Described):
    """The numbers of one key or sum. All arrays have the length of `units`."""

    name: str
    estimate: list[Number]
    low: list[Number]
    high: list[Number]
    repeated: list[bool] | None = Field(
        description="Whether each number repeats an earlier release; null for sums."
    )
    unread: list[int] = Field(description="How many units of each number were not read.")
    raised: list[bool] | None = Field(default=None, description="Alerts: whether it is raised.")
    doubt: list[Number] | None = Field(
        default=None, description="Alerts: a bound on the probability that noise alone raised it."
    )
    units: list[int] | None = Field(default=None, description="With points: the units shown.")
    begins: list[str | None] | None = None
    ends: list[str | None] | None = None


class RankedNumber(Described):
    rank: int
    name: str
    estimate: Number
    low: Number
    high: Number
    surely_among_them: bool
    surely_larger_than_the_rest: bool


class RankedUnit(Described):
    unit: int
    begins: str | None
    ends: str | None
    rows: list[RankedNumber]


class AnswerContent(Described):
    """The answer to a question: `series`, or `ranking` for top."""

    stream: str
    question: str
    query: str = Field(description="The question in words.")
    parameters: dict[str, Any]
    confidence: str
    intervals: str = Field(description="What the intervals mean.")
    filtered: bool
    nonnegative: bool
    nonnegative_words: str | None = None
    first: int
    last: int
    next: str | None = Field(description="Where the next page is.")
    points: int | None
    threshold: float | None = None
    units: list[int] | None = None
    begins: list[str | None] | None = None
    ends: list[str | None] | None = None
    series: list[SeriesContent] | None = None
    ranking: list[RankedUnit] | None = None


class LineContent(Described):
    unit: int
    kind: str
    label: str
    amount: str = Field(description="An exact fraction.")
    currency: Literal["epsilon", "rho"]


class LedgerPage(Described):
    """What some units were charged."""

    lines: list[LineContent]
    next: str | None


class HighestWindow(Described):
    unit: int
    spent: str


class WindowCosts(Described):
    """The cost of the window that ends with each unit."""

    unit: int = Field(description="The newest unit whose cost was verified.")
    limit: str
    limit_number: float
    currency: Literal["epsilon", "rho"]
    window: int
    highest: HighestWindow | None
    units: list[int]
    begins: list[str | None]
    ends: list[str | None]
    spent: list[str] = Field(description="Exact fractions.")
    spent_number: list[float]


class HeadContent(Described):
    unit: int
    link: str
    signature: str | None = Field(description="Public key and signature, in hexadecimal digits.")


class VerificationContent(Described):
    """Whether the ledger was found to be valid, and when."""

    state: Literal["verified", "running", "failed", "never"]
    unit: int | None
    checked_at: str | None
    kept: bool | None
    highest: str | None
    limit: str | None
    links: int | None
    signed_from: int | None
    public_key: str | None
    problem: str | None


_ERRORS = {
    401: (
        "The read token is missing or wrong.",
        "this needs the read token, in the header Authorization: Bearer …",
    ),
    404: (
        "There is no such stream, key, question or unit; `nearest` has the nearest name.",
        "there is no stream 'tap'. Did you mean 'taps'?",
    ),
    413: (
        "The answer would be too large.",
        "2,400,000 numbers are too many for one answer (limit: 100,000). Choose fewer keys …",
    ),
    422: ("A parameter cannot be used.", "confidence must lie between 0 and 1, not 2."),
    429: ("Too many requests at once: see Retry-After.", "too many requests at once. Try again."),
    503: (
        "The store or the copy cannot be read now: see Retry-After.",
        "the store cannot be read now. Try again.",
    ),
}
_HEADERS = {
    "ETag": {"schema": {"type": "string"}, "description": "The link of the last unit, and more."},
    "Cache-Control": {"schema": {"type": "string"}},
}
_BINARY = {"schema": {"type": "string", "format": "binary"}}


def described(
    model: type[BaseModel] | None, example: Any, *, tables: bool = False
) -> dict[int | str, dict[str, Any]]:
    """The answers of a route, for the OpenAPI document.

    Parameters
    ----------
    model : type of BaseModel or None
        The content of a success; None for anything.
    example : Any
        An example of it.
    tables : bool
        Whether the answer also comes as CSV, Arrow and Parquet. Default: False.
    """
    content: dict[str, Any] = {"application/json": {"example": example}}
    if tables:
        content["text/csv"] = {"schema": {"type": "string"}}
        content |= {MEDIA_TYPES[form]: _BINARY for form in (ARROW, PARQUET)}
    good: dict[str, Any] = {
        "description": "The answer.",
        "content": content,
        "headers": _HEADERS,
    }
    if model is not None:
        good["model"] = model
    return {
        200: good,
        304: {"description": "The reader has this answer already."},
        **{
            status: {
                "description": text,
                "model": ErrorContent,
                "content": {
                    "application/json": {
                        "example": {"error": said, "nearest": "taps" if status == 404 else None}
                    }
                },
            }
            for status, (text, said) in _ERRORS.items()
        },
    }


ABOUT_EXAMPLE = {
    "penstock": "0.1.0",
    "title": "Taps in our city",
    "streams_url": "/v1/streams",
    "openapi_url": "/v1/openapi.json",
    "map": None,
    "languages": ["en", "de"],
    "language": "en",
}
STREAM_EXAMPLE = {
    "name": "taps",
    "url": "/v1/streams/taps",
    "mechanism": "ba",
    "every": "1h",
    "every_words": "hour",
    "seconds": 3600,
    "zone": "Europe/Zurich",
    "keys": 3,
    "first_unit": 1,
    "units": 240,
    "newest": {
        "unit": 240,
        "begins": "2026-01-10T22:00:00Z",
        "ends": "2026-01-10T23:00:00Z",
        "link": LINK,
    },
    "hierarchy": False,
    "attributes": None,
    "filtered": False,
    "promise": {
        "words": "An observer may see everything that is ever published …",
        "not_protected": ["If two streams are about the same people, their epsilons add up. …"],
        "gaps": [
            {
                "kind": "other_streams",
                "values": {},
                "text": "If two streams are about the same people, their epsilons add up. …",
            }
        ],
        "epsilon": "1",
        "delta": "0",
        "window": 24,
        "window_words": "1 day",
        "window_seconds": 86400,
        "contribution": 1,
        "horizon": None,
        "intrusion": "",
        "currency": "epsilon",
        "limit": "1",
    },
    "live": "/v1/streams/taps/live",
    "catching_up": None,
}
DETAILS_EXAMPLE = {
    **STREAM_EXAMPLE,
    "questions": [
        {
            "question": "sum",
            "url": "/v1/streams/taps/answers/sum",
            "words": "the sum over the last units",
            "why_not": None,
            "parameters": [
                {
                    "name": "window",
                    "required": True,
                    "words": "a number of units, or a duration such as 1d",
                }
            ],
        }
    ],
    "configuration": {"epsilon": "1", "window": "24"},
    "events": [{"at": "2026-01-05T18:00", "unit": 115, "text": "Cup final"}],
}
KEYS_EXAMPLE = {
    "keys": [{"key": "Harbour", "parent": None, "children": 0, "depth": 0}],
    "next": "/v1/streams/taps/keys?limit=1&after=Harbour",
    "total": 3,
}
ANSWER_EXAMPLE = {
    "stream": "taps",
    "question": "sum",
    "query": "sums of 24 units",
    "parameters": {"key": ["Harbour"], "window": "1d", "last": "2"},
    "confidence": "0.95",
    "intervals": "Intervals cover the added noise only.",
    "filtered": False,
    "nonnegative": False,
    "first": 239,
    "last": 240,
    "next": None,
    "points": None,
    "units": [239, 240],
    "begins": ["2026-01-10T21:00:00Z", "2026-01-10T22:00:00Z"],
    "ends": ["2026-01-10T22:00:00Z", "2026-01-10T23:00:00Z"],
    "series": [
        {
            "name": "Harbour",
            "estimate": [1204, 1198],
            "low": [1165, 1160],
            "high": [1243, 1236],
            "repeated": None,
            "unread": [0, 0],
        }
    ],
}
DOCUMENT_EXAMPLE = {
    "format": ["penstock release", 1],
    "series": "taps",
    "unit": 240,
    "link": LINK,
    "begins": "2026-01-10T22:00:00Z",
    "ends": "2026-01-10T23:00:00Z",
    "keys": ["Harbour", "Market"],
    "values": [52, 17],
    "deviations": [1.4, 1.4],
    "low": [48, 13],
    "high": [56, 21],
    "repeated": [False, False],
}
LEDGER_EXAMPLE = {
    "lines": [
        {"unit": 1, "kind": "spend", "label": "publish", "amount": "1/24", "currency": "epsilon"}
    ],
    "next": "/v1/streams/taps/ledger?limit=1&after=1",
}
WINDOWS_EXAMPLE = {
    "unit": 3,
    "limit": "1",
    "limit_number": 1.0,
    "currency": "epsilon",
    "window": 24,
    "highest": {"unit": 3, "spent": "1/8"},
    "units": [1, 2, 3],
    "begins": ["2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"],
    "ends": ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"],
    "spent": ["1/24", "1/12", "1/8"],
    "spent_number": [0.041666666666666664, 0.08333333333333333, 0.125],
}
HEAD_EXAMPLE = {"unit": 240, "link": LINK, "signature": None}
VERIFICATION_EXAMPLE = {
    "state": "verified",
    "unit": 240,
    "checked_at": "2026-01-10T23:00:02Z",
    "kept": True,
    "highest": "1",
    "limit": "1",
    "links": 480,
    "signed_from": None,
    "public_key": None,
    "problem": None,
}
