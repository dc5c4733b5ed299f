"""One self-contained page a suite: figures, who wins where, the paper's findings beside ours."""

from __future__ import annotations

import base64
import re
import tempfile
from collections.abc import Iterable
from html import escape
from pathlib import Path

from penstock.core.errors import ConfigurationError
from penstock.core.files import write_file
from penstock_bench import pages
from penstock_bench.claims import Finding, number
from penstock_bench.draw import draw, looks
from penstock_bench.findings import Answered, SuiteFindings, find, shown
from penstock_bench.labels import label
from penstock_bench.registry import SUITES, find_suite
from penstock_bench.results import Results
from penstock_bench.suite import PlottedMeasure, Suite

PAGE = "report.html"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def write(suite: Suite, results: Results) -> tuple[Path, SuiteFindings]:
    """Make the page from what is in the folder, and nothing else."""
    found = find(suite, results.asked(), results.rows(), versions=results.versions())
    path = results.folder / PAGE
    write_file(path, render(found).encode(), durable=False)
    return path, found


def rebuild(folder: Path, *, docs: Path | None = None) -> list[Path]:
    """The pages of all suites in a folder of results, or of the one suite whose folder it is; with
    `docs` in Markdown too.
    """
    if (folder / "suite.json").exists():
        folders = [folder]
    else:
        folders = [folder / name for name in SUITES if (folder / name / "suite.json").exists()]
    if not folders:
        raise ConfigurationError(f"{folder} has no results of a suite.")
    written = [write(find_suite(Results(each).asked().suite), Results(each)) for each in folders]
    more = (
        []
        if docs is None
        else pages.write([found for _, found in written], docs, board=folders != [folder])
    )
    return [*(path for path, _ in written), *more]


def render(found: SuiteFindings) -> str:
    """The page. It loads nothing and runs nothing: its content security policy forbids both."""
    suite = found.suite
    everybody = list(dict.fromkeys(line for answered in found.answered for line in answered.lines))
    look = looks(everybody)
    with tempfile.TemporaryDirectory() as folder:
        sections = "".join(
            _question(found, answered, look, Path(folder)) for answered in found.answered
        )
    facts = [
        ("runs of cells", f"{found.cells:,}"),
        ("mechanisms", f"{sum(not line_is_trivial(line) for line in everybody)}"),
        ("streams", f"{len({dataset for dataset, _, _ in found.streams.values()})}"),
        ("runs of each", f"{suite.repeats(found.setting)}"),
    ]
    head = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(suite.title)} · Penstock bench</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<p class="brand">Penstock bench</p>
<h1>{escape(suite.title)}</h1>
<p>{_text(suite.words)}</p>
<p class="sub">After {escape(suite.paper)}. Synthetic and public data only. Means, ± half a 95 % interval over runs, or over
releases side by side. The best mechanism is bold. † is not private. All zeros and each key's long-run mean need no
mechanism: where they win, nobody has anything to boast of.</p>
<dl class="facts">{head}</dl>
</header>
<main>
{_notes(found)}
{_claims(found)}
{_winning(found)}
{sections}
{_streams(found)}
</main>
<footer><p>Make this page yourself:</p><pre><code>{escape(found.command)}</code></pre>
<p class="sub">{escape(_made_by(found))}</p></footer>
</body>
</html>
"""


def line_is_trivial(line: str) -> bool:
    return line in ("zeros", "mean")


# -- the parts -------------------------------------------------------------------------------------


def _notes(found: SuiteFindings) -> str:
    notes = found.notes()
    if not notes:
        return ""
    listed = "".join(f"<li>{_text(note)}</li>" for note in notes)
    return f'<section class="card warn"><h2>Read first</h2><ul>{listed}</ul></section>'


def _claims(found: SuiteFindings) -> str:
    rows = found.findings()
    if not rows:
        return ""
    body = "".join(
        f"<tr><td>{_text(finding.source)}: {_text(finding.paper)}</td><td>{_text(finding.ours)}</td><td>{_mark(finding)}</td>"
        f'<td><a href="#{question.name}">{escape(question.title)}</a></td></tr>'
        for question, finding in rows
    )
    differ = found.differences()
    said = "".join(f"<li>{_text(sentence)}</li>" for sentence in differ)
    more = f"<h3>Where we differ</h3><ul>{said}</ul>" if differ else "<p>Nowhere do we differ.</p>"
    return f"""<section class="card"><h2>What was found before, and what we find</h2>
<p class="sub">Computed from the rows. “Partly”: true at a quarter of the points or more, or
by less than the paper says; four fifths of a factor that it names are enough for a “yes”.</p>
<div class="wide"><table class="words"><thead><tr><th>claimed</th><th>here</th><th>holds</th><th>question</th></tr></thead>
<tbody>{body}</tbody></table></div>{more}</section>"""


def _mark(finding: Finding) -> str:
    kind = {"yes": "good", "no": "bad", "partly": "part", "not run": "sub"}[finding.verdict]
    return f'<span class="mark {kind}">{finding.verdict}</span>'


def _winning(found: SuiteFindings) -> str:
    """Who wins where: a question and panel a row, a place on the axis a column."""
    parts = []
    for answered in found.answered:
        drawn = answered.question.measures[0]
        winners = answered.winners(drawn)
        if not winners:
            continue
        axis = sorted({winner.place[1] for winner in winners}, key=float)
        rows = []
        for panel in dict.fromkeys(winner.place[0] for winner in winners):
            at = {winner.place[1]: winner for winner in winners if winner.place[0] == panel}
            cells = []
            for x in axis:
                winner = at.get(x)
                if winner is None:
                    cells.append("<td>–</td>")
                    continue
                ahead = f"{label(winner.second)} has {number(winner.ratio)} × its error"
                if drawn.more:
                    ahead = f"it has {number(winner.ratio)} × what {label(winner.second)} has"
                sure = "" if winner.sure else "≈"
                beaten = "".join(
                    f'<br><span class="tag">{escape(label(name))} no worse</span>'
                    for name in winner.beaten_by
                )
                cells.append(
                    f'<td title="{escape(ahead)}"><b>{escape(label(winner.line))}</b>{sure}{beaten}</td>'
                )
            rows.append(f'<tr><th scope="row">{escape(panel)}</th>{"".join(cells)}</tr>')
        head = "".join(f"<th>{escape(x)}</th>" for x in axis)
        parts.append(
            f"<h3>{escape(answered.question.title)}: {escape(drawn.title)}, by {escape(answered.question.axis)}</h3>"
            f'<div class="wide"><table><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        )
    return f"""<section class="card"><h2>Who wins where</h2>
<p class="sub">The private mechanism with the least error, or with the most where more is better. ≈: not
surely ahead of the next one. A tag names a line that needs no
mechanism and is at least as good.</p>{"".join(parts)}</section>"""


def _question(
    found: SuiteFindings, answered: Answered, look: dict[str, tuple[str, str]], folder: Path
) -> str:
    question = answered.question
    parts = []
    for place, drawn in enumerate(question.measures):
        if not answered.places(drawn):
            continue
        picture = draw(answered, drawn, look, folder / f"{question.name}-{place}.png").read_bytes()
        source = base64.b64encode(picture).decode()
        said = "".join(f"<li>{_text(sentence)}</li>" for sentence in answered.said(drawn))
        parts.append(
            f'<h3>{escape(drawn.title)}</h3><div class="wide"><img alt="{escape(question.title)}: {escape(drawn.title)}" '
            f'src="data:image/png;base64,{source}"></div><ul>{said}</ul>'
            f"<details><summary>The numbers</summary>{_table(answered, drawn)}</details>"
        )
    differ = [
        finding.sentence() for finding in answered.findings() if finding.verdict in ("partly", "no")
    ]
    more = "".join(f'<p class="differ">{_text(sentence)}</p>' for sentence in differ)
    return f"""<section class="card" id="{question.name}"><h2>{escape(question.title)}</h2>
<p>{_text(question.words)}</p>{more}{"".join(parts)}
<pre><code>{escape(found.command_for(question))}</code></pre></section>
"""


def _table(answered: Answered, drawn: PlottedMeasure) -> str:
    lines = answered.lines
    best = {winner.place: winner.line for winner in answered.winners(drawn)}
    rows = []
    for place, values in answered.places(drawn).items():
        cells = []
        for line in lines:
            value = values.get(line)
            text = "–" if value is None else escape(shown(value))
            if value is not None and value.formula:
                text += f'<br><span class="sub">formula {number(value.formula)}</span>'
            cells.append(
                f"<td><b>{text}</b></td>" if best.get(place) == line else f"<td>{text}</td>"
            )
        rows.append(
            f'<tr><th scope="row">{escape(place[0])}</th><td>{escape(place[1])}</td>{"".join(cells)}</tr>'
        )
    head = "".join(f"<th>{escape(label(line))}</th>" for line in lines)
    return (
        f'<div class="wide"><table><thead><tr><th>stream</th><th>{escape(answered.question.axis)}</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _streams(found: SuiteFindings) -> str:
    rows = []
    for name, *facts in found.described():
        rows.append(
            f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(text)}</td>" for text in facts)}</tr>'
        )
    notices = "".join(
        f"<details><summary>A notice that belongs to the data</summary><pre>{escape(text)}</pre></details>"
        for text in found.notices()
    )
    return f"""<section class="card"><h2>Streams</h2><div class="wide"><table class="words">
<thead><tr><th>stream</th><th>what</th><th>units</th><th>keys</th><th>a person</th><th>licence</th></tr></thead>
<tbody>{"".join(rows)}</tbody></table></div>{notices}</section>"""


def _made_by(found: SuiteFindings) -> str:
    versions = "; ".join(
        f"penstock {version.get('penstock', '?')}, code {version.get('code', '?')}, Python {version.get('python', '?')}, "
        f"NumPy {version.get('numpy', '?')}"
        for version in found.versions
    )
    return f"Made by {versions or 'nobody yet'}. The steps took {found.seconds:,.0f} seconds of CPU. One file, no network."


def _text(words: str) -> str:
    """Escaped, with `names` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))


def sentences(found: SuiteFindings) -> Iterable[str]:
    """The outcome in a few lines, for a terminal."""
    rows = found.findings()
    held = {
        verdict: sum(finding.verdict == verdict for _, finding in rows)
        for verdict in ("yes", "partly", "no")
    }
    if any(held.values()):
        yield (
            f"Of {sum(held.values())} findings of papers and theory that were tried, {held['yes']} hold here, "
            f"{held['partly']} hold in part, {held['no']} do not."
        )
    for answered in found.answered:
        drawn = answered.question.measures[0]
        for words in answered.said(drawn):
            yield f"{answered.question.name}, {drawn.title}: {words}"


_STYLE = """
:root { --bg: #f3f6f8; --card: #fff; --ink: #13202b; --muted: #526170; --line: #d8e0e6; --soft: #e9eff3;
  --blue: #0a6ebd; --orange: #b85c00; --good: #0c7a4d; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --bg: #0c131a; --card: #131d27; --ink: #e8eff5; --muted: #9db0c0;
  --line: #2a3947; --soft: #1c2834; --blue: #56b4f5; --orange: #f5a65b; --good: #5fd3a0; --bad: #ff8a80; } }
* { box-sizing: border-box; }
html { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1180px; padding: 0 20px 48px; background: var(--bg); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
  overflow-wrap: break-word; }
h1 { margin: 0 0 10px; font-size: clamp(1.6rem, 4.4vw, 2.4rem); line-height: 1.15; }
h2 { margin: 0 0 4px; font-size: 1.25rem; } h3 { margin: 20px 0 6px; font-size: 0.86rem; color: var(--muted); }
p { margin: 0 0 8px; max-width: 90ch; } ul { margin: 6px 0 8px; padding-left: 22px; }
a { color: var(--blue); text-decoration: none; } a:hover { text-decoration: underline; }
header { padding: 32px 0 20px; } .brand { font-weight: 650; color: var(--blue); }
.facts { display: grid; grid-template-columns: repeat(4, 1fr); gap: 1px; margin: 18px 0 0; overflow: hidden;
  border: 1px solid var(--line); border-radius: 12px; background: var(--line); }
.facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; padding: 10px 14px;
  background: var(--card); }
.facts dt { font-size: 0.8rem; color: var(--muted); } .facts dd { margin: 0; font-size: 1.3rem; font-weight: 650; }
.card { margin-bottom: 18px; padding: 22px 24px; background: var(--card); border: 1px solid var(--line); border-radius: 14px; }
.warn { border-color: var(--orange); }
.sub { color: var(--muted); font-size: 0.92rem; }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: 0.88rem; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 14px 5px 0; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap;
  vertical-align: top; font-weight: 400; }
thead th { color: var(--muted); font-weight: 600; } .words td { white-space: normal; min-width: 7em; }
img { display: block; max-width: max(100%, 640px); height: auto; margin: 6px 0; background: #fff; border-radius: 8px; }
summary { cursor: pointer; color: var(--blue); }
code, pre { font: 0.9em ui-monospace, "SF Mono", "Liberation Mono", Menlo, Consolas, monospace; }
pre { overflow-x: auto; margin: 12px 0 0; padding: 10px 14px; background: var(--soft); border-radius: 8px; }
.mark { font-weight: 650; white-space: nowrap; } .good { color: var(--good); } .bad { color: var(--bad); }
.part { color: var(--orange); } .differ { padding-left: 12px; border-left: 3px solid var(--orange); }
.tag { padding: 0 8px; border: 1px dashed var(--orange); border-radius: 999px; font-size: 0.76rem; color: var(--orange);
  white-space: nowrap; }
@media (max-width: 600px) { body { padding: 0 12px 32px; } .card { padding: 16px 14px; }
  .facts { grid-template-columns: repeat(2, 1fr); } }
@media print { .card { break-inside: avoid; } }
"""
