"""Checks that every mechanism must pass: `check_*` functions that take the class of a mechanism.

They use a mechanism as `run` and the gate use it, so they work for third-party mechanisms too:

>>> from penstock import Uniform
>>> check_bad_input_changes_nothing(Uniform)
>>> [title(check) for check in CHECKS][:2]
['No window costs more than was promised.', 'The noise is what the ledger says was paid for.']

A check builds the mechanism as `cls(epsilon=..., window=...)`. Some also pass `contribution`.
All seeds are fixed, so a check gives the same result every time. A check that fails raises
`CheckError`. Checks on random streams need Hypothesis: `pip install 'penstock[lab]'`.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.lab.checks.base import (
    AnyMechanism,
    Check,
    CheckError,
    CheckResult,
    hypothesis_module,
    run_all,
    title,
)
from penstock.lab.checks.gate_rules import check_the_gate_keeps_its_rules
from penstock.lab.checks.inputs import (
    check_bad_input_changes_nothing,
    check_input_is_not_aliased,
    check_relabelling_keys_relabels_the_output,
)
from penstock.lab.checks.paid_noise import check_noise_is_what_was_paid_for
from penstock.lab.checks.promise import (
    check_no_window_costs_more_than_promised,
    check_the_stated_guarantee_is_the_enforced_one,
)
from penstock.lab.checks.restart import check_a_restart_changes_nothing, check_memory_does_not_grow
from penstock.lab.checks.secrecy import check_nothing_private_can_be_read
from penstock.lab.checks.statistics import check_noise_has_the_scale_it_claims

__all__ = [
    "CHECKS",
    "Check",
    "CheckError",
    "CheckResult",
    "check_a_restart_changes_nothing",
    "check_bad_input_changes_nothing",
    "check_input_is_not_aliased",
    "check_memory_does_not_grow",
    "check_no_window_costs_more_than_promised",
    "check_noise_has_the_scale_it_claims",
    "check_noise_is_what_was_paid_for",
    "check_nothing_private_can_be_read",
    "check_relabelling_keys_relabels_the_output",
    "check_the_gate_keeps_its_rules",
    "check_the_stated_guarantee_is_the_enforced_one",
    "run_all",
    "run_checks",
    "title",
]

CHECKS: tuple[Check, ...] = (
    check_no_window_costs_more_than_promised,
    check_noise_is_what_was_paid_for,
    check_the_stated_guarantee_is_the_enforced_one,
    check_the_gate_keeps_its_rules,
    check_nothing_private_can_be_read,
    check_noise_has_the_scale_it_claims,
    check_a_restart_changes_nothing,
    check_memory_does_not_grow,
    check_input_is_not_aliased,
    check_bad_input_changes_nothing,
    check_relabelling_keys_relabels_the_output,
)


def run_checks(
    cls: AnyMechanism,
    *,
    quick: bool = False,
    progress: Callable[[str, CheckResult | None], object] | None = None,
) -> list[CheckResult]:
    """Run every check on a mechanism.

    Parameters
    ----------
    cls : type
        The class of the mechanism.
    quick : bool
        Try fewer and shorter streams. Default: False.
    progress : callable
        Called with the name of each check and None when the check begins, and with the name and
        the `CheckResult` when it ends. Default: none.
    """
    hypothesis_module()  # fail now, not in the middle
    return run_all(CHECKS, cls, quick=quick, progress=progress)
