"""Alerts on what is released: rules, and how they are evaluated.

An alert is a function of releases, so it costs no budget. `AlertRule` says what is watched and when
a key is raised and cleared. `evaluate` applies a rule to some units of a release log.
"""

from penstock.released.alerting.evaluation import AlertEvent, Evaluation, evaluate
from penstock.released.alerting.progress import RuleProgress
from penstock.released.alerting.rule import AlertRule

__all__ = ["AlertEvent", "AlertRule", "Evaluation", "RuleProgress", "evaluate"]
