"""Releases, promises and domains as bytes and plain data: the same for the same, whoever writes
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from penstock.core.domain import Domain
from penstock.core.guarantee import Guarantee
from penstock.core.hierarchy import SEPARATOR, Hierarchy, Nodes
from penstock.core.product import Product
from penstock.core.released import Released, Scale
from penstock.core.weights import Weights

_SMALL = (np.int8, np.int16, np.int32, np.int64)
_APART = {"unit", "repeated", "guarantee", "private"}
_DEFAULTS = {field.name for field in fields(Released)} - _APART


def body(release: Released) -> bytes:
    """All of a release but its unit and its flags; the same bytes for the same numbers."""
    return msgspec.msgpack.encode(
        {name: _plain(getattr(release, name)) for name in sorted(_DEFAULTS)}
    )


def flags(release: Released) -> bytes:
    """What may differ where a release stands again."""
    return msgspec.msgpack.encode([release.private, _plain(release.repeated)])


def release_of(unit: int, body: bytes, guarantee: Guarantee | None) -> Released:
    """A release again, from its body; its flags are set apart."""
    content = {
        name: rich(value)
        for name, value in msgspec.msgpack.decode(body).items()
        if name in _DEFAULTS
    }
    return Released(unit=unit, guarantee=guarantee, private=False, **content)  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": _array(value)}
    if isinstance(value, Fraction):
        return {"ratio": str(value)}
    if isinstance(value, Scale):
        return {"scale": [str(value.base), _plain(value.parts)]}
    if isinstance(value, Weights):
        return {"weights": [value.kind, value.length, str(value.rate)]}
    if isinstance(value, Mapping):
        return {"map": [[key, _plain(value[key])] for key in sorted(value)]}
    if isinstance(value, np.integer):
        return int(value)
    return value


def _array(value: Any) -> list[Any]:
    """Whole numbers in the fewest bytes that hold them all; bits for flags."""
    if value.dtype == np.bool_:
        return ["bits", len(value), np.packbits(value).tobytes()]
    if not value.size:
        return ["<i8", 0, b""]
    low, high = int(value.min()), int(value.max())
    small = next(
        kind for kind in _SMALL if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max
    )
    kind = np.dtype(small).newbyteorder("<")
    return [kind.str, len(value), value.astype(kind).tobytes()]


def rich(value: Any) -> Any:
    """A value again."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        dtype, size, data = content
        if dtype == "bits":
            return np.unpackbits(np.frombuffer(data, np.uint8), count=size).astype(np.bool_)
        return np.frombuffer(data, np.dtype(dtype)).astype(np.int64)
    if kind == "ratio":
        return Fraction(content)
    if kind == "scale":
        return Scale(Fraction(content[0]), rich(content[1]))
    if kind == "weights":
        return Weights(content[0], content[1], Fraction(content[2]))
    return {key: rich(each) for key, each in content}


def plain_guarantee(guarantee: Guarantee | None) -> dict[str, Any]:
    """A promise as plain data."""
    return {field.name: _plain(getattr(guarantee, field.name)) for field in fields(Guarantee)}


def rich_guarantee(plain: dict[str, Any]) -> Guarantee:
    """A promise again."""
    return Guarantee(**{name: rich(value) for name, value in plain.items()})


def plain_domain(domain: Domain) -> dict[str, Any]:
    """The keys, and their attributes; or the parents of nodes or the paths of keys where they are
    in a hierarchy.
    """
    tree = domain.tree if isinstance(domain, Nodes) else domain
    plain: dict[str, Any] = {"keys": tree.keys, "nodes": isinstance(domain, Nodes)}
    if isinstance(tree, Hierarchy):
        plain["paths"] = [SEPARATOR.join(path) for path in tree.paths]
    if isinstance(tree, Product):
        plain["attributes"] = tree.attributes
    return plain


def rich_domain(plain: dict[str, Any]) -> Domain:
    """A domain again."""
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
