"""`penstock audit`."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from penstock.cli.options import Flag, Json, MaybeInt, with_own_modules
from penstock.core.errors import ConfigurationError
from penstock.core.exact import positive, whole
from penstock.lab.audit import report, suite
from penstock.lab.audit.engine import Verdict
from penstock.lab.audit.flawed import VARIANTS
from penstock.lab.audit.model import Pair
from penstock.lab.audit.subjects import Subject, subject

EPSILON, RUNS, CONFIDENCE = "2", 20_000, 0.999
EXACT_EPSILON = "6"
"""Without --epsilon an exact audit takes this one: the larger it is, the fewer outputs there are.
"""

FOLDER = Path("out/audit")
INTERRUPTED = 130


def audit(
    name: str | None = None,
    /,
    *,
    everybody: Annotated[bool, Parameter(name="--all", negative="")] = False,
    epsilon: str | None = None,
    window: MaybeInt = None,
    runs: MaybeInt = None,
    confidence: float | None = None,
    seed: MaybeInt = None,
    exact: Flag = False,
    quick: Flag = False,
    as_json: Json = False,
    page: Annotated[Path | None, Parameter(name="--report")] = None,
    workers: MaybeInt = None,
    folder: Path = FOLDER,
) -> None:
    """Try to convict a mechanism of promising too much, on made-up streams. Exit code 1 if it is
    convicted.

    It is run many times on two streams that differ by one person. An output that is much likelier
    on one of them gives a lower bound on ε; above the promise, the mechanism is convicted. Not
    being convicted proves nothing: see docs/how-to/audit.md.

    For example:

    * penstock audit ba --epsilon 2 --window 3

    * penstock audit bd --epsilon 6 --window 2 --exact

    * penstock audit my_module:MyMechanism --runs 100000 --report out/mine.html

    * penstock audit dsat@user

    * penstock audit flawed:short_window

    * penstock audit --all --quick --json

    Parameters
    ----------
    name
        A registered mechanism, one of a plug-in, the import path module:Class of your own (also
        from the current directory), each with @user behind it for user level, or flawed:NAME for
        one that is broken on purpose.
    everybody
        Every registered mechanism, which must be acquitted, and every flawed variant, which must be
        convicted. Exit code 1 if one is not.
    epsilon
        The promised privacy loss of a window, exact: 2, 0.5 or 1/3; 2 unless told, 6 with --exact.
        A larger one is easier to test.
    window
        How many units in a row are protected together; 2 unless told, more where fewer leave
        nothing to decide.
    runs
        Runs of each stream of each pair; 20000 unless told. Half of them choose the event, the
        other half try it.
    confidence
        How sure a conviction must be; 0.999 unless told.
    seed
        Repeats an audit exactly. A new one is drawn unless told.
    exact
        Compute the loss itself on tiny streams instead of sampling. It needs a large epsilon and a
        short window.
    quick
        With --all: fewer runs. Still convicts every flawed variant.
    as_json
        The verdict as JSON, or with --all a list of them.
    page
        Write a page about the verdicts to this file.
    workers
        How many processes; one a core unless told.
    folder
        Where finished work is kept until the audit is over, so that a killed one goes on.
    """
    if workers is not None:
        whole(workers, name="workers", least=1)
    options = _given(epsilon=epsilon, window=window, runs=runs, confidence=confidence)
    if everybody:
        if name is not None:
            raise ConfigurationError(f"either {name!r} or --all, not both.")
        if options or exact:
            raise ConfigurationError(
                f"{', '.join([*options, *(['--exact'] if exact else [])])} cannot be used with --all."
            )
        _make_room(page)
        command = _command(None, {"all": True, "quick": quick, "seed": seed})
        with _interruptible("the same command goes on from what was done"), _bar() as progress:
            verdicts = suite.audit_all(
                quick=quick, seed=seed, workers=workers, folder=folder, progress=progress
            )
        if page is not None:
            _write(
                page,
                report.render(
                    verdicts, title="Every mechanism and every flaw, audited", command=command
                ),
            )
        if as_json:
            _print_json([verdict.row() for verdict in verdicts])
        else:
            _show_all(verdicts)
            _say_where(page)
        if not all(map(report.as_it_should_be, verdicts)):
            sys.exit(1)
        return
    if name is None:
        raise ConfigurationError("whom? Give the NAME of a mechanism, or --all.")
    if quick:
        raise ConfigurationError("--quick can only be used with --all: use --runs.")
    if exact and epsilon is None and not name.startswith("flawed:"):
        epsilon = EXACT_EPSILON
    audited = _subject(name, epsilon=epsilon, window=window, runs=runs)
    sure = CONFIDENCE if confidence is None else confidence
    if not 0 < sure < 1:
        raise ConfigurationError(f"confidence must lie between 0 and 1, not {sure}.")
    _make_room(page)
    kept = (
        "an exact audit keeps nothing and begins anew"
        if exact
        else "the same command goes on from what was done"
    )
    with _interruptible(kept), _bar() as progress:

        def tell(done: int, of: int) -> None:
            progress(audited.name, done, of)

        if exact:
            verdict = suite.audit_exactly(audited, progress=tell)
        else:
            verdict = suite.audit_one(
                audited, confidence=sure, seed=seed, workers=workers, folder=folder, progress=tell
            )
    again = _again(name, audited, verdict, exact=exact)
    if page is not None:
        _write(page, report.render([verdict], title=f"An audit of {verdict.name}", command=again))
    if as_json:
        _print_json(verdict.row())
    else:
        _show(verdict, again, audited)
        _say_where(page)
    if verdict.convicted:
        sys.exit(1)


def _given(**options: object) -> list[str]:
    return [f"--{name}" for name, value in options.items() if value is not None]


def _subject(name: str, *, epsilon: str | None, window: int | None, runs: int | None) -> Subject:
    """Whom to audit, in the configuration that was asked for."""
    positive(EPSILON if epsilon is None else epsilon, name="epsilon")
    if window is not None:
        whole(window, name="window", least=1)
    whole(RUNS if runs is None else runs, name="runs", least=2)
    if " " in name:
        raise ConfigurationError(f"{name!r} is no name of a mechanism.")
    variant = VARIANTS.get(name.removeprefix("flawed:")) if name.startswith("flawed:") else None
    if variant is not None:
        if (
            epsilon is not None and positive(epsilon, name="epsilon") != variant.claimed
        ) or window not in (
            None,
            variant.window,
        ):
            raise ConfigurationError(
                f"{name} claims epsilon {variant.claimed} in {variant.window} units and nothing else: "
                "leave out --epsilon and --window."
            )
        return subject(
            name,
            epsilon=str(variant.claimed),
            window=variant.window,
            runs=variant.runs if runs is None else runs,
        )
    return with_own_modules(
        name,
        lambda: subject(
            name,
            epsilon=EPSILON if epsilon is None else epsilon,
            window=window,
            runs=RUNS if runs is None else runs,
        ),
    )


def _command(name: str | None, options: dict[str, object]) -> str:
    words = ["penstock", "audit", *([] if name is None else [name])]
    for option, value in options.items():
        if value is True:
            words.append(f"--{option}")
        elif value is not None and value is not False:
            words += [f"--{option}", str(value)]
    return shlex.join(words)


def _again(name: str, audited: Subject, verdict: Verdict, *, exact: bool) -> str:
    """The command that gives the same verdict once more."""
    claims = {} if audited.flawed else {"epsilon": audited.claimed, "window": audited.window}
    if exact or verdict.method == "exact":
        return _command(name, {**claims, "exact": True})
    options = {
        "runs": audited.runs,
        "confidence": f"{verdict.confidence:.12g}",
        "seed": verdict.seed,
    }
    return _command(name, {**claims, **options})


# -- while it runs ---------------------------------------------------------------------------------


@contextmanager
def _interruptible(what: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print(f"penstock: interrupted; {what}.", file=sys.stderr)
        sys.exit(INTERRUPTED)


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for every audit under way, with its chunks and the time left."""
    screen = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("chunks, left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def progress(name: str, done: int, of: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=of)
            bar.update(tasks[name], completed=done, total=of, visible=done < of)

        yield progress


def _make_room(page: Path | None) -> None:
    """A page that cannot be written is refused before the work, not after."""
    if page is None:
        return
    if page.is_dir():
        raise ConfigurationError(f"{page} is a folder, not a file.")
    page.parent.mkdir(parents=True, exist_ok=True)


def _write(page: Path, text: str) -> None:
    page.write_text(text, encoding="utf-8")


# -- what is shown ---------------------------------------------------------------------------------


def _print_json(data: object) -> None:
    print(json.dumps(_plain(data), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(data: Any) -> Any:
    """JSON has no infinity: null."""
    if isinstance(data, dict):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_plain(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _say_where(page: Path | None) -> None:
    if page is not None:
        Console().print(Text(f"Open {page}"), soft_wrap=True)


def _show(verdict: Verdict, again: str, audited: Subject) -> None:
    console = Console()

    def say(text: str = "", style: str = "") -> None:
        console.print(Text(text, style), soft_wrap=True)

    say(
        f"{verdict.name}: {report.sentence(verdict)}",
        "bold red" if verdict.convicted else "bold green",
    )
    say(
        f"{type(audited.mechanism).__name__}: {report.configured(verdict)}",
        "yellow" if verdict.chosen else "dim",
    )
    say()
    say(f"The two streams: {verdict.pair.name} (* where they differ)", "bold")
    for table in _fitting(verdict.pair, console):
        console.print(table)
    look = report.look_in_words(verdict.pair)
    if look is not None:
        say(look)
    say()
    first, *points = report.in_words(verdict)
    worst = "The output with the largest loss:" if verdict.method == "exact" else "The event:"
    say(
        "The event, likelier on the left:" if verdict.left_hits > verdict.right_hits else worst,
        "bold",
    )
    say(first)
    for point in points:
        say(f"  · {point}")
    listed, more = report.event_cells(verdict)
    if listed:
        say()
        say(
            "Its cells"
            + (
                ", with how often each was seen on the left and on the right:"
                if verdict.half
                else ":"
            )
        )
    for cell, left, right in listed:
        counts = "" if left is None or right is None else f"   {left:,} : {right:,}"
        say(f"  {cell}{counts}")
    if more:
        say(f"  and {more} more")
    for letter, meaning in report.alphabet(verdict):
        say(f"    {letter:<8} {meaning}", "dim")
    say()
    seen = report.hits(verdict)
    if seen is not None:
        say(f"Seen in {seen}.")
    say(report.meaning(verdict))
    say()
    say("Repeat it:", "bold")
    say(f"  {again}")


def _fitting(pair: Pair, console: Console) -> Iterator[Table]:
    """Both streams side by side; where that is too wide, one below the other, as many keys at a
    time as there is room for.
    """
    shown = report.columns(pair)
    both = _streams(pair, ("left", "right"), shown)
    if _width(both, console) <= console.width:
        yield both
        return
    for side in ("left", "right"):
        rest = shown
        while rest:
            fits = len(rest)
            while fits > 1 and _width(_streams(pair, [side], rest[:fits]), console) > console.width:
                fits -= 1
            yield _streams(pair, [side], rest[:fits])
            rest = rest[fits:]


def _width(table: Table, console: Console) -> int:
    return Measurement.get(console, console.options.update(width=100_000), table).maximum


def _streams(pair: Pair, sides: Sequence[str], shown: Sequence[report.Column]) -> Table:
    table = Table()
    table.add_column("")
    for at, side in enumerate(sides):
        if at:
            table.add_column("")
        for column in shown:
            table.add_column(f"{side}\n{column.label}", justify="right", no_wrap=True)
    for unit in range(pair.units):
        row = [Text(f"unit {unit + 1}")]
        for at, side in enumerate(sides):
            row += [Text()] if at else []
            row += [
                Text(f"{count}*", "bold yellow") if differs else Text(f"{count} ")
                for count, differs in report.counts(pair, side, unit, shown)
            ]
        table.add_row(*row)
    return table


def _show_all(verdicts: Sequence[Verdict]) -> None:
    console = Console()
    table = Table(title="Audits", title_justify="left", title_style="bold")
    table.add_column("name", no_wrap=True)
    table.add_column("flawed")
    for heading in ("claimed", "lower bound", "exact"):
        table.add_column(heading, justify="right")
    table.add_column("convicted")
    table.add_column("seconds", justify="right")
    for verdict in verdicts:
        style = "bold red" if verdict.convicted else "green"
        table.add_row(
            Text(verdict.name),
            "yes" if verdict.flawed else "no",
            report.claim(verdict),
            report.at_least(
                verdict.lower_bound, above=float(verdict.claimed) if verdict.convicted else None
            ),
            "" if verdict.exact is None else Text(report.interval(verdict.exact)),
            Text(
                ("yes" if verdict.convicted else "no")
                + ("" if report.as_it_should_be(verdict) else "  WRONG"),
                style,
            ),
            f"{verdict.seconds:.1f}",
        )
    console.print(table)
    console.print(Text(report.closing(verdicts, false_alarm=suite.FALSE_ALARM)), soft_wrap=True)
