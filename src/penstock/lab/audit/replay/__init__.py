"""The replay audit: the shipped code on two neighbouring streams, with one transcript forced on
both. The loss of that transcript is added up exactly. Everything else that differs is a violation.
"""

from penstock.lab.audit.replay.search import replay_audit
from penstock.lab.audit.replay.verdict import ReplayVerdict

__all__ = ["ReplayVerdict", "replay_audit"]
