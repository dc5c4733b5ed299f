"""`RuleProgress`: how far a rule has come, which a restart goes on from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RuleProgress:
    """How far a rule has come.

    Attributes
    ----------
    rule : str
        Its name.
    about : str
        Its definition as text; empty if it is not watched any more.
    since : int
        The first unit that it was applied to with this definition.
    unit : int
        The newest unit that it was applied to.
    number : int
        How many alerts it has, with those of earlier definitions.
    sent : int
        How many of them were sent to its address.
    raised : tuple of str
        The keys that are raised now.
    """

    rule: str
    about: str
    since: int
    unit: int
    number: int = 0
    sent: int = 0
    raised: tuple[str, ...] = ()
