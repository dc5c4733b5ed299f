"""Releases, promises and domains as bytes and plain data: equal values give equal bytes."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from penstock.core.codec import FRACTION, SORTED_MAP, Codec, Form
from penstock.core.domain import Domain
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import SEPARATOR, Hierarchy, Nodes
from penstock.core.product import Product
from penstock.core.released import Released, Scale
from penstock.core.weights import Weights

_WHOLE_TYPES = (np.int8, np.int16, np.int32, np.int64)
_BODY = {field.name for field in fields(Released)} - {"unit", "repeated", "guarantee", "private"}
"""The fields of a release that its body holds."""


def _array(value: Any, _: object) -> list[Any]:
    """Whole numbers in the fewest bytes that hold them all; bits for flags."""
    if value.dtype == np.bool_:
        return ["bits", len(value), np.packbits(value).tobytes()]
    if not value.size:
        return ["<i8", 0, b""]
    low, high = int(value.min()), int(value.max())
    small = next(
        kind for kind in _WHOLE_TYPES if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max
    )
    kind = np.dtype(small).newbyteorder("<")
    return [kind.str, len(value), value.astype(kind).tobytes()]


def _array_of(content: Any, _: object) -> Any:
    dtype, size, data = content
    if dtype == "bits":
        return np.unpackbits(np.frombuffer(data, np.uint8), count=size).astype(np.bool_)
    return np.frombuffer(data, np.dtype(dtype)).astype(np.int64)


_CODEC = Codec(
    (
        Form("array", np.ndarray, _array, _array_of),
        FRACTION,
        Form(
            "scale",
            Scale,
            lambda value, plain: [str(value.base), plain(value.parts)],
            lambda content, rich: Scale(Fraction(content[0]), rich(content[1])),
        ),
        Form(
            "weights",
            Weights,
            lambda value, _: [value.kind, value.length, str(value.rate)],
            lambda content, _: Weights(content[0], content[1], Fraction(content[2])),
        ),
        SORTED_MAP,
    )
)


def _widest(value: Any, _: object) -> list[Any]:
    """An array whose numbers need the most bytes."""
    if value.dtype == np.bool_:
        return _array(value, _)
    return ["<i8", len(value), bytes(8 * len(value))]


_WIDEST = replace(_CODEC, forms=(replace(_CODEC.forms[0], plain=_widest), *_CODEC.forms[1:]))
"""Writes releases of the same length as those of the largest numbers."""


def body(release: Released) -> bytes:
    """A release without its unit and its flags; equal numbers give equal bytes."""
    return msgspec.msgpack.encode(
        {name: _CODEC.plain(getattr(release, name)) for name in sorted(_BODY)}
    )


def most_bytes(release: Released) -> int:
    """The most bytes of body and flags of a release with as many numbers as this one."""
    whole = {name: _WIDEST.plain(getattr(release, name)) for name in sorted(_BODY)}
    return len(msgspec.msgpack.encode(whole)) + len(flags(release))


def flags(release: Released) -> bytes:
    """The fields that may differ where an earlier release is repeated: private, repeated."""
    return msgspec.msgpack.encode([release.private, _CODEC.plain(release.repeated)])


def release_of(unit: int, body: bytes, guarantee: Guarantee | None) -> Released:
    """The release of a body, not private and with no repeated keys until `flagged` says so."""
    content = msgspec.msgpack.decode(body)
    known = {name: _CODEC.rich(value) for name, value in content.items() if name in _BODY}
    return Released(unit=unit, guarantee=guarantee, private=False, **known)  # type: ignore[arg-type]


def flagged(release: Released, unit: int, flags: bytes) -> Released:
    """The release of this unit with these flags."""
    private, repeated = flags_of(flags)
    return replace(release, unit=unit, private=private, repeated=repeated)


def flags_of(flags: bytes) -> tuple[bool, Any]:
    """Whether a release is private, and which of its keys are repeated."""
    private, repeated = msgspec.msgpack.decode(flags)
    return private, _CODEC.rich(repeated)


def plain_guarantee(guarantee: Guarantee | None) -> dict[str, Any]:
    """A promise as plain data."""
    return {field.name: _CODEC.plain(getattr(guarantee, field.name)) for field in fields(Guarantee)}


def rich_guarantee(plain: dict[str, Any]) -> Guarantee:
    """The promise of plain data."""
    return Guarantee(**{name: _CODEC.rich(value) for name, value in plain.items()})


def plain_domain(domain: Domain) -> dict[str, Any]:
    """A domain as plain data: its keys, and its paths or attributes where it has them."""
    tree = domain.tree if isinstance(domain, Nodes) else domain
    plain: dict[str, Any] = {"keys": tree.keys, "nodes": isinstance(domain, Nodes)}
    if isinstance(tree, Hierarchy):
        plain["paths"] = [SEPARATOR.join(path) for path in tree.paths]
    if isinstance(tree, Product):
        plain["attributes"] = tree.attributes
    return plain


def rich_domain(plain: dict[str, Any]) -> Domain:
    """The domain of plain data."""
    if "attributes" in plain:
        product = Product(tuple((name, tuple(values)) for name, values in plain["attributes"]))
        if product.keys != tuple(plain["keys"]):
            raise ValueError("the keys are not those of the attributes.")
        return product
    if "paths" not in plain:
        return Domain(tuple(plain["keys"]))
    tree = Hierarchy(
        tuple(plain["keys"]),
        tuple(tuple(path.split(SEPARATOR)) if path else () for path in plain["paths"]),
    )
    return tree.nodes if plain["nodes"] else tree
