"""The lab: checks, audits and benches, on synthetic or public data only."""
