"""`penstock lab city --compare`: one simulated city, published by several mechanisms."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from penstock.core.exact import positive, whole
from penstock_bench.comparison import FLOOR, build
from penstock_bench.comparison_page import Demo, render
from penstock_bench.simulated.city import City


def compare(city: City, *, page: Path, hours: int, epsilon: str, window: int, command: str) -> None:
    """Publish the city by several mechanisms, write the page and print the errors of each."""
    positive(epsilon, name="epsilon")
    whole(hours, name="hours", least=1)
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
            command=command,
            progress=progress,
        )
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(made), encoding="utf-8")
    console = Console()
    console.print(_table(made))
    floor = (
        f"MRE: error relative to the true count, or to {FLOOR} if that is larger. Each mechanism "
        "keeps "
        "the promise by itself."
    )
    console.print(Text(floor))
    console.print(Text(f"Open {page}"), soft_wrap=True)


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
