"""The error of a mechanism that the exact audit does not cover."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import ConfigurationError
from penstock.private.mechanisms.base import Mechanism


class ExactAuditError(ConfigurationError):
    """A mechanism does something that the exact audit does not cover. Nothing is claimed about it.

    `behaviour` says what the mechanism does.
    """

    def __init__(self, mechanism: Mechanism[Any], behaviour: str) -> None:
        self.behaviour = behaviour
        super().__init__(f"{mechanism.name} {behaviour}: no exact audit covers that.")
