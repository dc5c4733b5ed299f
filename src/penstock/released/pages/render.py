"""Fill a template into one self-contained HTML document."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

_KIT = "penstock.released.pages"


def render(template: str, /, **context: Any) -> str:
    """Fill a template; the page loads nothing, and its content security policy forbids it to.

    Parameters
    ----------
    template : str
        The template's file name in the page kit, or ``"package:name"`` for a template in the folder
        ``templates`` of another package. It extends ``base.html``, which lists what it may set.
    **context
        The values that the template names. Text is escaped.

    Returns
    -------
    str
        One HTML document with all its styles and scripts.

    Examples
    --------
    >>> page = render("base.html", title="Sums <of> a day", promise="Nobody is told apart.")
    >>> page.startswith("<!doctype html>"), "Sums &lt;of&gt; a day" in page
    (True, True)
    """
    return _environment().get_template(template).render(**context)


def asset(name: str) -> str:
    """A stylesheet or script of the kit, or of another package as ``"package:name"``.

    >>> asset("chart.js").startswith('"use strict"')
    True
    """
    return _read("assets", name)


def _read(folder: str, name: str) -> str:
    package, _, file = name.rpartition(":")
    path = files(package or _KIT).joinpath(folder, *file.split("/"))
    return path.read_text(encoding="utf-8")


def script_hash(script: str) -> str:
    """The digest by which a content security policy allows an inline script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    import jinja2
    from markupsafe import Markup

    made = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FunctionLoader(lambda name: _read("templates", name)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    made.filters["script_hash"] = script_hash
    made.filters["base64"] = lambda text: base64.b64encode(text.encode()).decode()
    made.globals["asset"] = lambda name: Markup(  # noqa: S704 - files of a package
        asset(name)
    )
    return made
