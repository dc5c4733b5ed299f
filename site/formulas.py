"""Markdown extension: formulas, and sessions of the Python prompt, as a reader expects them.

Pages write formulas in Unicode (`Σ_{t∈T} e^(−x²/2)`), which reads well without a site. Here
subscripts and powers are raised and lowered, and an indented block is a displayed formula. The
docstrings of the code write LaTeX (``:math:`…```), which becomes MathML. A browser needs no script
and no font for either.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.blockprocessors import CodeBlockProcessor
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

_NESTED = r"(?:[^{0}{1}]|{0}(?:[^{0}{1}]|{0}[^{0}{1}]*{1})*{1})*"
_BRACES = r"\{" + _NESTED.format(r"\{", r"\}") + r"\}"
_ROUND = r"\(" + _NESTED.format(r"\(", r"\)") + r"\)"
_LOWERED = rf"_(?:{_BRACES}|[A-Za-z0-9]+)"
_RAISED = rf"\^(?:{_BRACES}|{_ROUND}|\|[^|\s]+\||[−-]?[0-9]+(?:\.[0-9]+)?|[−-]?[A-Za-zα-ωΑ-Ω][₁′]*)"
_BASE = r"(?:(?<![A-Za-z0-9_])(?:max|min|[A-Za-z])|(?<=[0-9α-ω])[A-Za-z]|[α-ωΑ-Ω])[′²³]*"
_FORMULA = rf"(?:{_BASE}(?:{_LOWERED})(?:{_RAISED})?|(?:{_BASE}|[0-9)\]])(?:{_RAISED}))"
_LETTER = r"(?<![A-Za-z])[A-Za-zα-ω](?![A-Za-z])"

_LATEX_BLOCK = r"^(?P<margin> *)\.\. math::(?P<latex>.*\n?(?:(?:\n*(?P=margin) +\S.*)\n?)*)"


def formula(text: str) -> str:
    """HTML of a formula in Unicode.

    >>> formula("e^(−x²) · c_t")
    '<i>e</i><sup>−<i>x</i>²</sup> · <i>c</i><sub><i>t</i></sub>'
    """
    found, at = [], 0
    for each in re.finditer(rf"({_LOWERED})|({_RAISED})", text):
        found.append(_letters(text[at : each.start()]))
        tag = "sub" if each[1] else "sup"
        found.append(f"<{tag}>{formula(_inner(each[0][1:]))}</{tag}>")
        at = each.end()
    return "".join((*found, _letters(text[at:])))


def _inner(text: str) -> str:
    """A subscript or a power without the brackets that hold it together."""
    return text[1:-1] if text[0] in "{(" else text


def _letters(text: str) -> str:
    """Variables in italics. Capital Greek letters and words stay upright."""
    return re.sub(_LETTER, lambda found: f"<i>{found[0]}</i>", escape(text, quote=False))


class _InlineFormula(InlineProcessor):
    def handleMatch(self, match: re.Match[str], data: str) -> tuple[Any, int, int]:  # noqa: N802
        made = f'<span class="formula">{formula(match[0])}</span>'
        return self.md.htmlStash.store(made), match.start(0), match.end(0)


class _Latex(InlineProcessor):
    def handleMatch(self, match: re.Match[str], data: str) -> tuple[Any, int, int]:  # noqa: N802
        made = convert(match["latex"], display="inline")
        return self.md.htmlStash.store(made), match.start(0), match.end(0)


class _Displayed(CodeBlockProcessor):
    """An indented block is a formula; code stands between fences."""

    def run(self, parent: Element, blocks: list[str]) -> None:
        block, rest = self.detab(blocks.pop(0))
        lines = "<br>".join(formula(line.strip()) for line in block.strip().splitlines())
        made = Element("div", {"class": "formula displayed", "tabindex": "0"})
        made.text = self.parser.md.htmlStash.store(f"<span>{lines}</span>")
        parent.append(made)
        if rest:
            blocks.insert(0, rest)


class _Docstrings(Preprocessor):
    """Prompts outside a fence get one; LaTeX of its own paragraph becomes one of MathML."""

    def run(self, lines: list[str]) -> list[str]:
        return list(_fenced(_displayed(lines)))


def _displayed(lines: list[str]) -> list[str]:
    """`.. math::` and its indented lines, as one displayed formula."""
    text = "\n".join(lines)

    def made(found: re.Match[str]) -> str:
        latex = " ".join(found["latex"].split())
        formula = convert(latex, display="block")
        return f'\n<div class="formula displayed" tabindex="0">{formula}</div>\n\n'

    return re.sub(_LATEX_BLOCK, made, text, flags=re.MULTILINE).split("\n")


def _fenced(lines: list[str]) -> Any:
    """Lines with a fence around every session that has none, and with the lexer that knows it."""
    inside, session = "", False
    for place, line in enumerate(lines):
        fence = re.match(r"\s*(`{3,}|~{3,})", line)
        if fence and not inside:
            inside = fence[1]
            following = lines[place + 1].lstrip() if place + 1 < len(lines) else ""
            yield (
                re.sub(r"(```+)\s*python\s*$", r"\1pycon", line)
                if following.startswith(">>>")
                else line
            )
        elif inside:
            inside = "" if line.strip() == inside else inside
            yield line
        elif session and not line.strip():
            session = False
            yield from ("```", "")
        elif not session and line.lstrip().startswith(">>> "):
            session = True
            yield from ("", "```pycon", line.lstrip())
        else:
            yield line.lstrip() if session else line
    if session:
        yield "```"


class Formulas(Extension):
    """The extension, with the priorities that its parts need."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.preprocessors.register(_Docstrings(md), "docstrings", 60)
        md.parser.blockprocessors.register(_Displayed(md.parser), "code", 80)
        latex = r":math:`(?P<latex>[^`]+)`"
        md.inlinePatterns.register(_Latex(latex, md), "latex", 195)
        md.inlinePatterns.register(_InlineFormula(_FORMULA, md), "formula", 65)


def makeExtension(**settings: Any) -> Formulas:  # noqa: N802
    """What Markdown calls."""
    return Formulas(**settings)
