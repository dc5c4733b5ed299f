"""What the columns of published tables mean, for the metadata of files and data frames."""

from __future__ import annotations

from penstock.core.exact import exact

_FIXED = {
    "series": "the name of the series",
    "unit": "the number of the unit of time; unit 1 is the first",
    "begins": "the first instant of the unit",
    "ends": "the first instant after the unit",
    "key": "what is counted; nodes of a hierarchy have / between their parts",
    "unread": "how many units in the number were not read, as an earlier release stands for them",
    "raised": "whether the number is past the threshold",
    "doubt": "an upper bound of the probability that noise alone raised the alert",
    "rank": "the place in the ranking of the unit",
    "sure": "whether the number is surely larger than all that follow it",
    "belongs": "whether the number is surely among the largest",
    "repeated": "whether the number repeats an earlier release, so that later changes are unknown",
}


def describe_columns(
    *, confidence: str, filtered: bool = False, nonnegative: bool = False
) -> dict[str, str]:
    """The meaning of each column that a table may have, by name.

    Parameters
    ----------
    confidence : str
        The confidence of the intervals, such as "0.95".
    filtered : bool
        Whether numbers are the estimates of a filter. Default: False.
    nonnegative : bool
        Whether numbers were made non-negative. Default: False.

    Examples
    --------
    >>> describe_columns(confidence="0.95", nonnegative=True)["value"]
    'the published number: counts and added noise, made non-negative'
    """
    made = ", made non-negative" if nonnegative else ""
    cut = ", cut at 0" if nonnegative else ""
    percent = f"{float(100 * exact(confidence, name='confidence')):g} %"
    interval = (
        f"end of the {percent} interval of the count, as the filter believes"
        if filtered
        else f"end of the interval that covers the added noise with at least {percent}"
    )
    return {
        **_FIXED,
        "value": (
            f"the estimate of a filter{made}"
            if filtered
            else f"the published number: counts and added noise{made}"
        ),
        "deviation": (
            "the root mean square error, as the filter believes; empty before the first release"
            if filtered
            else "an upper bound of the standard deviation of the noise; empty before the first "
            "release of the key"
        ),
        "low": f"the lower {interval}{cut}",
        "high": f"the upper {interval}{cut}",
    }
