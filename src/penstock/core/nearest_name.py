"""The names that are nearest to a wrong one, for error messages."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

MAX_NAMES_COMPARED = 20_000
"""The most names that a wrong one is compared with."""


def nearest_names(name: str, names: Sequence[str], *, most: int = 3) -> str:
    """Return a question with the nearest names, or nothing where none is near.

    Parameters
    ----------
    name : str
        The wrong name.
    names : sequence of str
        The names that there are.
    most : int
        The most names in the question. Default: 3.

    Examples
    --------
    >>> nearest_names("jamaca", ["Jamaica", "Jamaica Bay", "Astoria"])
    " Did you mean 'Jamaica' or 'Jamaica Bay'?"
    >>> nearest_names("harbour", ["Inner Harbour", "Market"]), nearest_names("x", ["Market"])
    (" Did you mean 'Inner Harbour'?", '')
    """
    wanted, written = name.casefold(), dict[str, str]()
    for each in names[:MAX_NAMES_COMPARED]:
        written.setdefault(each.casefold(), each)
    close = get_close_matches(wanted, written, n=most)
    if len(wanted) > 2:
        close += [each for each in written if wanted in each and each not in close]
    shown = [repr(written[each]) for each in close[:most]]
    return f" Did you mean {' or '.join(shown)}?" if shown else ""
