"""All mutants."""

from __future__ import annotations

from tests.mutants.blind_mutants import BLIND_MUTANTS
from tests.mutants.bounding_mutants import BOUNDING_MUTANTS
from tests.mutants.gate_mutants import GATE_MUTANTS
from tests.mutants.histogram_mutants import HISTOGRAM_MUTANTS
from tests.mutants.ledger_mutants import LEDGER_MUTANTS
from tests.mutants.mechanism_mutants import MECHANISM_MUTANTS
from tests.mutants.noise_mutants import NOISE_MUTANTS
from tests.mutants.outsider_mutants import OUTSIDER_MUTANTS
from tests.mutants.second_outsider_mutants import SECOND_OUTSIDER_MUTANTS

MUTANTS = (
    *GATE_MUTANTS,
    *LEDGER_MUTANTS,
    *NOISE_MUTANTS,
    *MECHANISM_MUTANTS,
    *HISTOGRAM_MUTANTS,
    *BOUNDING_MUTANTS,
    *BLIND_MUTANTS,
    *OUTSIDER_MUTANTS,
    *SECOND_OUTSIDER_MUTANTS,
)
"""All mutants, part by part."""
