"""Reading the table [domain]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from penstock.core.domain import Domain
from penstock.core.errors import ConfigurationError
from penstock.core.hierarchy import SEPARATOR, Hierarchy
from penstock.core.product import Product
from penstock.engine.config_sections import Section, shown
from penstock.engine.pipeline.key_files import read_keys, read_lines
from penstock.engine.pipeline.options import DOMAIN

MAX_KEYS = 5_000_000

_COLUMN = next(option for option in DOMAIN if option.name == "column")


def read_domain(top: Section, folder: Path) -> tuple[Domain | None, str | None]:
    """The keys, and the key that counts unknown ones."""
    declared = top.content.get("domain")
    if isinstance(declared, Domain):
        top.take("domain")
        return declared, None
    section = top.table("domain")
    other = section.option(next(option for option in DOMAIN if option.name == "other"))["other"]
    given = [way for way in _DOMAINS if way in section]
    if len(given) != 1:
        told = f"has {' and '.join(given)}" if given else "says nothing of its keys"
        section.wrong(None, f"{told}: use exactly one of {', '.join(_DOMAINS)}.")
    column = section.option(_COLUMN)["column"]
    if column is not None and "file" not in given:
        section.wrong("column", "is for file, and there is no file here: leave it out.")
    section.close(*_DOMAINS)
    if section.faulty:
        return None, other
    (way,) = given
    try:
        return _DOMAINS[way](section, folder, other), other
    except ConfigurationError as error:
        section.wrong(way, str(error).removeprefix("domain "))
    return None, other


def _with(keys: Sequence[str], other: str | None) -> tuple[str, ...]:
    return tuple(keys) if other is None or other in keys else (*keys, other)


def _listed(value: object) -> list[str]:
    if not isinstance(value, (list, tuple)) or any(
        isinstance(key, bool) or not isinstance(key, (str, int)) for key in value
    ):
        raise ConfigurationError(f"must be an array of texts or whole numbers, not {shown(value)}.")
    return [str(key) for key in value]


def _by_keys(section: Section, _: Path, other: str | None) -> Domain:
    return Domain(_with(_listed(section.take("keys")), other))


def _path(section: Section, name: str, folder: Path) -> Path:
    path = section.text(name, example="stations.txt")
    if not path:
        raise ConfigurationError("must be the name of a file with one key per line.")
    return folder / path


def _by_file(section: Section, folder: Path, other: str | None) -> Domain:
    keys = read_keys(_path(section, "file", folder), section.take("column"))
    return Domain(_with(keys, other))


def _check_number(keys: int) -> None:
    """Check the number of keys before they are made: a few characters can ask for too many."""
    if keys > MAX_KEYS:
        raise ConfigurationError(f"must make at most {MAX_KEYS} keys, not {keys}.")


def _by_range(section: Section, _: Path, other: str | None) -> Domain:
    value = section.take("range")
    ends = value if isinstance(value, (list, tuple)) and len(value) == 2 else ()
    if (
        not ends
        or any(isinstance(end, bool) or not isinstance(end, int) for end in ends)
        or ends[0] > ends[1]
    ):
        raise ConfigurationError(
            "must be the first and the last of the keys, whole numbers, such as range = [0, 99]."
        )
    _check_number(ends[1] - ends[0] + 1)
    return Domain(_with([str(key) for key in range(ends[0], ends[1] + 1)], other))


def _by_attributes(section: Section, _: Path, other: str | None) -> Domain:
    value = section.take("attributes")
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            'must be a table of attributes, such as attributes = {sex = ["f", "m"], age = 100}.'
        )
    values: dict[str, tuple[str, ...]] = {}
    number = 1
    for name, each in value.items():
        plain = isinstance(each, int) and not isinstance(each, bool) and each > 0
        number *= each if plain else max(1, len(_listed(each)))
        _check_number(number)
        values[name] = tuple(map(str, range(each))) if plain else tuple(_listed(each))
    domain = Product.of(values)
    if other is not None and other not in domain.keys:
        first = shown(domain.keys[0])
        raise ConfigurationError(
            f"other must be one of the combinations, such as {first}, not {shown(other)}."
        )
    return domain


def _by_hierarchy(section: Section, folder: Path, other: str | None) -> Domain:
    value = section.take("hierarchy")
    if isinstance(value, str):
        paths = {
            key: above
            for above, _, key in (
                line.rpartition(SEPARATOR)
                for line in read_lines(_path(section, "hierarchy", folder))
            )
        }
    elif isinstance(value, Mapping) and all(
        isinstance(path, (str, list, tuple)) for path in value.values()
    ):
        paths = dict(value)
    else:
        raise ConfigurationError(
            "must be a file, or a table with the path above each key: "
            'hierarchy = {"room 1" = "A/floor 1"}.'
        )
    if other is not None:
        paths.setdefault(other, "")
    return Hierarchy.of(paths)


_DOMAINS: dict[str, Callable[[Section, Path, str | None], Domain]] = {
    "keys": _by_keys,
    "file": _by_file,
    "range": _by_range,
    "attributes": _by_attributes,
    "hierarchy": _by_hierarchy,
}
