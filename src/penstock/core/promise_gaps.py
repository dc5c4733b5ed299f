"""What a promise does not protect, in plain sentences made from its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.core.guarantee import Guarantee

EACH_ALONE = (
    "Each event without a person's id counts as a person of its own. So several such events of one "
    "person are protected one by one, not together."
)
"""What the promise means where events without an id count, in words."""


@dataclass(frozen=True)
class PromiseGap:
    """One thing that a promise does not protect.

    Parameters
    ----------
    kind : str
        A short name that never changes, by which a page finds its own translation.
    text : str
        The sentences in English.
    values : Mapping[str, str]
        The numbers that the sentences name. Default: none.

    Examples
    --------
    >>> PromiseGap("other_data", "The promise does not cover other data.").values
    {}
    """

    kind: str
    text: str
    values: Mapping[str, str] = field(default_factory=dict)


def promise_gaps(
    promise: Guarantee, *, persons: bool = True, counts_alone: bool = False
) -> tuple[PromiseGap, ...]:
    """Everything that a promise does not protect, the most important first.

    Parameters
    ----------
    promise : Guarantee
        The promise.
    persons : bool
        Whether events name their person. Default: True.
    counts_alone : bool
        Whether an event without a person's id counts as a person of its own. Default: False.

    Returns
    -------
    tuple of PromiseGap
        One element per gap.

    Examples
    --------
    >>> [gap.kind for gap in promise_gaps(Guarantee("1", 24))]
    ['longer_stay', 'group', 'many_people', 'other_streams', 'memory', 'other_data']
    >>> print(promise_gaps(Guarantee("1", 24))[1].text)
    Several people who come together are protected less: for two of them, epsilon is 2, for three 3.
    """
    found = [
        *_own_events(promise, persons=persons, counts_alone=counts_alone),
        _group(promise),
        PromiseGap(
            "many_people",
            "What holds for many people stays visible; the numbers are published for that. Such a "
            "fact can say something about a person, whether or not the person was counted.",
        ),
        other_streams(promise),
        *_memory(promise),
        OTHER_DATA,
    ]
    return tuple(found)


def longer_stay(promise: Guarantee) -> PromiseGap:
    """What is open for a person who is there in more units than one window has."""
    span = "one unit" if promise.window == 1 else f"{promise.window} units"
    return PromiseGap(
        "longer_stay",
        f"A person who is there for longer than {span} is protected in any {span} of that time, "
        "not in all of it together.",
        {"window": str(promise.window)},
    )


NO_PERSONS = PromiseGap(
    "no_persons",
    "There is no column for persons, so each event is its own person. A person with several events "
    "is not covered.",
)
"""What is open where events do not name their person."""

OTHER_DATA = PromiseGap(
    "other_data",
    "The promise does not cover other data about the same people. It does not hide events from "
    "people who can read the source.",
)
"""What no promise of ours can cover."""


def other_streams(promise: Guarantee) -> PromiseGap:
    """What is open where other streams are about the same people."""
    what = "epsilons and deltas" if promise.delta else "epsilons"
    return PromiseGap(
        "other_streams",
        f"If two streams are about the same people, their {what} add up. A publisher does not "
        "know other streams.",
    )


def _own_events(promise: Guarantee, *, persons: bool, counts_alone: bool) -> list[PromiseGap]:
    if not persons:
        return [NO_PERSONS]
    found = [] if promise.user_level else [longer_stay(promise)]
    if counts_alone:
        found.append(PromiseGap("counts_alone", EACH_ALONE))
    return found


def _group(promise: Guarantee) -> PromiseGap:
    two, three = 2 * promise.epsilon, 3 * promise.epsilon
    delta = ", and delta grows faster than that" if promise.delta else ""
    return PromiseGap(
        "group",
        f"Several people who come together are protected less: for two of them, epsilon is {two}, "
        f"for three {three}{delta}.",
        {"two": str(two), "three": str(three)},
    )


def _memory(promise: Guarantee) -> list[PromiseGap]:
    if promise.intrusion:
        text = (
            "The promise is about what is published. Of looks into the publisher's memory, it "
            f"survives only {promise.intrusion}."
        )
        return [PromiseGap("some_memory", text, {"intrusion": promise.intrusion.value})]
    text = (
        "The promise is about what is published. It does not hold against somebody who can look "
        "into the publisher's memory or open its store with the key."
    )
    return [PromiseGap("memory", text)]
