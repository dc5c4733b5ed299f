"""Answers as HTTP has them: bytes, their validators, and for how long they may be kept."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec
from fastapi import Request, Response

from penstock.service.api_errors import ApiError

JSON = "application/json"
IMMUTABLE = "public, max-age=31536000, immutable"
CHECKED = "no-cache"
"""May be kept, and must be checked by its ETag before each use."""

MIN_GZIP_BYTES = 2_000
"""Shorter answers are sent as they are."""

_NOT_PUBLIC = "private, "


@dataclass(frozen=True, kw_only=True)
class Validity:
    """How long an answer holds.

    Parameters
    ----------
    tag : str
        What its ETag is made of: the link of its last unit, and a digest of its parameters.
    fixed : bool
        Whether it can never change. Default: False.
    """

    tag: str
    fixed: bool = False

    def etag(self, suffix: str = "") -> str:
        """The ETag. Each form of an answer, such as CSV, has a suffix of its own."""
        return f'"{self.tag}{f"-{suffix}" if suffix else ""}"'


def validity(link: str, *parts: object, fixed: bool = False) -> Validity:
    """The validity of an answer.

    Parameters
    ----------
    link : str
        The link of its last unit.
    parts : object
        Everything else that it depends on.
    fixed : bool
        Whether it can never change. Default: False.
    """
    digest = blake2b(msgspec.json.encode(parts), digest_size=8).hexdigest() if parts else ""
    return Validity(tag=f"{link}-{digest}" if digest else link, fixed=fixed)


def json_reply(request: Request, content: Any, valid: Validity | None = None) -> Response:
    """An answer as JSON.

    Parameters
    ----------
    request : Request
        The request.
    content : Any
        The content, or its bytes.
    valid : Validity, optional
        How long it holds. Default: it may be kept by nobody.
    """
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return reply(request, body, JSON, valid)


def reply(
    request: Request,
    body: bytes,
    media: str,
    valid: Validity | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """An answer, or 304 if the reader has it.

    Parameters
    ----------
    request : Request
        The request.
    body : bytes
        The content.
    media : str
        Its media type.
    valid : Validity, optional
        How long it holds. Default: it may be kept by nobody.
    headers : dict of str to str, optional
        Further headers. Default: none.
    """
    said = {"vary": "accept, accept-encoding", **(headers or {})}
    packed = len(body) >= MIN_GZIP_BYTES and _takes_gzip(request)
    if valid is None:
        said["cache-control"] = "no-store"
    else:
        etag = valid.etag("gzip" if packed else "")
        said["etag"] = etag
        said["cache-control"] = IMMUTABLE if valid.fixed else CHECKED
        if "authorization" in request.headers:  # shared caches must not keep it
            said["cache-control"] = said["cache-control"].replace("public, ", _NOT_PUBLIC)
        if (held := has(request, valid)) is not None:
            return Response(status_code=304, headers=said | {"etag": held})
    if packed:
        body = gzip.compress(body, 1, mtime=0)
        said["content-encoding"] = "gzip"
    return Response(body, media_type=media, headers=said)


def has(request: Request, valid: Validity) -> str | None:
    """The ETag of this answer that the reader has already; None if it has none."""
    given = request.headers.get("if-none-match", "")
    told = {each.strip().removeprefix("W/") for each in given.split(",")}
    tags = valid.etag(), valid.etag("gzip")
    return next((tag for tag in tags if tag in told or "*" in told), None)


def error_reply(error: ApiError) -> Response:
    """An error as JSON."""
    return Response(
        msgspec.json.encode(error.content), error.status, headers=error.headers, media_type=JSON
    )


def _takes_gzip(request: Request) -> bool:
    given = request.headers.get("accept-encoding", "")
    for each in given.split(","):
        name, _, quality = each.partition(";")
        if name.strip().lower() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
