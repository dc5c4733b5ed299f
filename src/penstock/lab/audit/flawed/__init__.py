"""Mechanisms that are broken on purpose. The auditor must convict each of them.

Some are published forms that Penstock corrects. Others are mutants of its own core. They live in
the lab only: they are not registered, and no name or path of the publisher leads here. Each claims
ε. Its ledger promises more than that, so that the ledger does not stop it. Each comes with the two
streams that show its flaw.
"""

from penstock.lab.audit.flawed.eshp import ESHP_FLAWS
from penstock.lab.audit.flawed.fast import FAST_FLAWS
from penstock.lab.audit.flawed.gaussian import GAUSSIAN_FLAWS
from penstock.lab.audit.flawed.hierarchy import HIERARCHY_FLAWS
from penstock.lab.audit.flawed.rg import RG_FLAWS
from penstock.lab.audit.flawed.sampling import SAMPLING_FLAWS
from penstock.lab.audit.flawed.tide import TIDE_FLAWS
from penstock.lab.audit.flawed.variant import Variant
from penstock.lab.audit.flawed.w_event import W_EVENT

__all__ = ["VARIANTS", "Variant"]

VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        *W_EVENT,
        *RG_FLAWS,
        *HIERARCHY_FLAWS,
        *ESHP_FLAWS,
        *SAMPLING_FLAWS,
        *FAST_FLAWS,
        *TIDE_FLAWS,
        *GAUSSIAN_FLAWS,
    )
}
