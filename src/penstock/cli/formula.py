"""Docstrings for a terminal: formulas as Unicode text, paragraphs at the terminal's width."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from functools import partial
from typing import Final

_SYMBOLS: Final = {
    "varepsilon": "ε",
    "varphi": "φ",
    "lambda": "λ",
    "sum": "Σ",
    "prod": "Π",
    "sqrt": "√",
    "cdot": "·",
    "dots": "…",
    "qquad": "   ",
    "ge": " ≥ ",
    "le": " ≤ ",
    "in": " ∈ ",
    "pm": "±",
    "mid": " | ",
    "leftarrow": " ← ",
    "lceil": "⌈",
    "rceil": "⌉",
    "lfloor": "⌊",
    "rfloor": "⌋",
}
_WORDS: Final = ("ln", "max", "min", "exp")
"""Commands that are read as they are."""

_ACCENTS: Final = {"tilde": "\N{COMBINING TILDE}", "bar": "\N{COMBINING MACRON}"}
_SUBSCRIPTS: Final = dict(
    zip("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True)
)
_SUPERSCRIPTS: Final = dict(
    zip(
        "0123456789+-=()abcdefghijklmnoprstuvwxyz",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ",
        strict=True,
    )
)
_GROUP: Final = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
_SOURCE_WIDTH: Final = 96
"""The width at which docstrings are wrapped, without their indentation."""


def readable(formula: str) -> str:
    r"""A formula from LaTeX to Unicode text.

    >>> readable(r"y_k=\sum_{t\in\text{block}}c_{t,k}+DLap(1/((1-\alpha)a_t))")
    'yₖ=Σ(t ∈ block) c[t,k]+DLap(1/((1-α)aₜ))'
    >>> readable(r"\frac{P^-R}{P^2+R} \ge \sqrt{2n}")
    '(P⁻R)/(P²+R) ≥ √(2n)'
    """
    text = re.sub(r"\\(?:text|mathrm)" + _GROUP, r" \1", formula)
    text = re.sub(r"\\frac" + _GROUP + _GROUP, r"(\1)/(\2)", text)
    text = re.sub(r"\\sqrt" + _GROUP, r"√(\1)", text)
    text = re.sub(r"\\(tilde|bar)\s*(\w)", lambda found: found[2] + _ACCENTS[found[1]], text)
    text = re.sub(r"\\(sum|prod)_(?:" + _GROUP + r"|(\w))", _big_operator, text)
    text = re.sub(r"\\[, ]", " ", text.replace(r"\|", "‖"))
    text = re.sub(r" *\\([a-zA-Z]+) ?", _symbol, text)
    for sign, small, between in (("_", _SUBSCRIPTS, "[]"), ("^", _SUPERSCRIPTS, "^()")):
        part = re.escape(sign) + "(?:" + _GROUP + r"|(\S))"
        text = re.sub(part, partial(_shifted, small=small, between=between), text)
    return re.sub(r" {2,3}(?! )", " ", text).replace("{", "(").replace("}", ")").strip()


def _symbol(found: re.Match[str]) -> str:
    """The character of a command, with the spaces that keep words apart."""
    name, spaces = found[1], found[0].startswith(" ")
    if name in _WORDS:
        return f"{' ' if spaces else ''}{name}{' ' if found[0].endswith(' ') else ''}"
    if name in _SYMBOLS:
        return (" " if spaces else "") + _SYMBOLS[name]
    size = "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        letter = unicodedata.lookup(f"GREEK {size} LETTER {name}")
    except KeyError:  # a command in the docstring of a plug-in
        letter = name
    return (" " if spaces else "") + letter


def _big_operator(found: re.Match[str]) -> str:
    """A sum or product over something that is written below it."""
    sign = _SYMBOLS[found[1]]
    return f"{sign}({found[2]}) " if found[2] else f"{sign}_{found[3]} "


def _shifted(found: re.Match[str], *, small: dict[str, str], between: str) -> str:
    """An index or exponent: in small characters where all exist, else in brackets."""
    text = found[1] if found[1] is not None else found[2]
    if all(each in small for each in text):
        return "".join(small[each] for each in text)
    if len(text) == 1:
        return f"{'_' if between == '[]' else '^'}{text}"
    return f"{between[:-1]}{text}{between[-1]}"


def as_text(docstring: str, width: int) -> str:
    """A docstring for a terminal of this width. Headings and lists stay as they are.

    >>> print(as_text("Guarantee: none.\\nKept: :math:`c_1`.", 40))
    Guarantee: none.
    Kept: c₁.
    """
    text = _without_formulas("\n".join(_paragraphs(docstring)))
    return "\n".join(_filled(line, width) for line in text.splitlines())


def _paragraphs(docstring: str) -> list[str]:
    """The lines, with the lines of a paragraph joined: a full line goes on in the next one."""
    lines: list[str] = []
    last = ""
    for line in docstring.splitlines():
        goes_on = bool(last.strip() and line.strip()) and _indent(last) == _indent(line)
        if goes_on and len(last) + 1 + len(line.split()[0]) > _SOURCE_WIDTH - 8:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
        last = line
    return lines


def _without_formulas(docstring: str) -> str:
    text = re.sub(r":math:`([^`]*)`", lambda found: readable(" ".join(found[1].split())), docstring)
    return re.sub(
        r"^( *)\.\. math::\s+((?:.+\n?)+)",
        lambda found: f"{found[1]}    {readable(' '.join(found[2].split()))}\n",
        text,
        flags=re.MULTILINE,
    )


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _filled(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = _indent(line)
    return textwrap.fill(
        line.strip(), width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
