"""`penstock lab demo`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from penstock.cli.options import Int
from penstock.core.exact import positive, whole
from penstock.lab.city import City
from penstock.lab.demo import FLOOR, build
from penstock.lab.page import Demo, render

OUT = Path("out/demo.html")


def demo(
    *,
    out: Annotated[Path, Parameter(name="--out")] = OUT,
    hours: Int = 336,
    people: Int = 200_000,
    epsilon: str = "1",
    window: Int = 24,
    seed: Int = 1,
) -> None:
    """Publish a simulated city with every mechanism and show it beside the truth, as one HTML file.

    For example:

    * penstock lab demo

    * penstock lab demo --epsilon 0.5 --window 168 --out out/week.html

    Parameters
    ----------
    out
        The file to write; its folder is made if need be.
    hours
        How long the city is watched.
    people
        How many live in it; the fewer, the more the noise hides.
    epsilon
        The privacy loss of a window, exact: 1, 0.5 or 1/3.
    window
        How many hours in a row are protected together.
    seed
        Another seed, another city. The noise takes no seed.
    """
    positive(epsilon, name="epsilon")
    whole(hours, name="hours", least=1)
    city = City(people=people, seed=seed)
    screen = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("hours"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as bar:
        tasks = {"": bar.add_task("the city", total=hours)}

        def progress(mechanism: str, done: int, total: int) -> None:
            if mechanism not in tasks:
                bar.update(tasks[""], completed=total)
                tasks[mechanism] = bar.add_task(mechanism, total=total)
            bar.update(tasks[mechanism], completed=done)

        made = build(
            city,
            hours=hours,
            epsilon=epsilon,
            window=window,
            command=_command(
                out=out, hours=hours, people=people, epsilon=epsilon, window=window, seed=seed
            ),
            progress=progress,
        )
    page = render(made)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page, encoding="utf-8")
    console = Console()
    console.print(_table(made))
    floor = f"MRE divides by the true count, or by {FLOOR} where it is smaller. Each mechanism keeps the promise by itself."
    console.print(Text(floor))
    console.print(Text(f"Open {out}"), soft_wrap=True)


def _command(**options: object) -> str:
    return "penstock lab demo " + " ".join(
        f"--{name} {shlex.quote(str(value))}" for name, value in options.items()
    )


def _table(made: Demo) -> Table:
    table = Table(title=f"{made.title}, epsilon {made.epsilon} in any {made.window} hours")
    table.title_justify, table.title_style = "left", "bold"
    table.add_column("mechanism")
    for heading in ("MAE", "MRE", "worst window ε"):
        table.add_column(heading, justify="right")
    for track in made.tracks:
        worst = f"{track.window_spent.max():.6g}"
        table.add_row(
            Text(f"{track.title} ({track.mechanism})"),
            f"{track.mae:.2f}",
            f"{track.mre:.3f}",
            worst,
        )
    table.add_section()
    for name, mae, mre in made.baselines:
        table.add_row(Text(name, "dim"), f"{mae:.2f}", f"{mre:.3f}", "–")
    return table
