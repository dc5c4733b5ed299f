"""`penstock query`: the verb, what it asks, at which units, and how answers are shown."""

from penstock.cli.query.command import query

__all__ = ["query"]
