"""Mechanisms that are broken on purpose: what the auditor must convict.

Some are the published forms that Penstock corrects, some are mutants of its own core. They live in
the lab only: nothing registers them, and no name or path of the publisher's leads here. Each claims
ε and has a ledger that promises more, so that it does not stop them; each comes with the two
streams that show what it does.
"""

from penstock.lab.audit.flawed.eshp import ESHP_FLAWS
from penstock.lab.audit.flawed.fast import FAST_FLAWS
from penstock.lab.audit.flawed.hierarchy import HIERARCHY_FLAWS
from penstock.lab.audit.flawed.rg import RG_FLAWS
from penstock.lab.audit.flawed.sampling import SAMPLING_FLAWS
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
    )
}
