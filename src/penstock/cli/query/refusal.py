"""Refusing options that a question does not have."""

from __future__ import annotations

from penstock.core.errors import ConfigurationError


def refuse(question: str | None, /, **options: object) -> None:
    """Refuse the first of these options that was given; None stands for no question at all."""
    for name, value in options.items():
        if value is not None and value is not False and value != ():
            option = f"--{name.strip('_').replace('_', '-')}"
            use = "needs a question, such as counts." if question is None else ""
            raise ConfigurationError(f"{option} {use or f'cannot be used with {question}.'}")
