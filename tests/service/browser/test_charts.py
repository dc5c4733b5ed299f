"""Charts by themselves: what they draw, what they say, and what keys do."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.browser import needs_chromium
from tests.service.browser.modules import Modules

pytestmark = [needs_chromium, pytest.mark.slow]

HOURS = """
const { makeFormat } = await import("/assets/format.js"), {
  loadTexts } = await import("/assets/texts.js");
const text = await loadTexts("en"), format = makeFormat({ language: "en", zone: "UTC" }),
  start = 1767225600;
const hours = (count, name = "Zoo", first = 0) => {
  const units = Array.from({ length: count }, (_, at) => first + at + 1),
    estimate = units.map((unit) => 10 * unit);
  return {
    name, units, times: units.map((unit) => start + (unit - 1) * 3600), ends: units.map((unit) =>
      start + unit * 3600),
    estimate, low: estimate.map((value) => value - 5), high: estimate.map((value) => value + 5),
    repeated: units.map((unit) => unit % 3 === 0), unread: null, raised: null,
  };
};
const options = (more = {}) => ({ series: [hours(24)], zone: "UTC", text, format,
  confidence: "0.95", label: "Zoo", ...more });
const box = document.getElementById("main"), frame = () => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(done)));
"""


def readout(modules: Modules) -> str:
    return modules.page.inner_text(".readout").replace("\n", " ")


def test_keys_read_one_unit_after_the_other(modules: Modules) -> None:
    modules.run("{ lineChart } from parts/chart.js", HOURS + "lineChart(box, options());")
    page = modules.page
    assert "Thu 1 Jan 2026, 23:00" in readout(modules)  # the newest, before anything is chosen
    page.focus(".plot")
    page.keyboard.press("Home")
    assert "00:00" in readout(modules)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "02:00" in readout(modules)
    assert "30 (25 to 35) · repeated" in readout(modules)
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert "22:00" in readout(modules)
    assert page.get_attribute(".readout", "aria-live") == "polite"
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.get_attribute(".readout", "aria-live") == "off"


def test_new_units_are_drawn_on_the_same_canvas(modules: Modules) -> None:
    found = modules.run(
        "{ lineChart } from parts/chart.js",
        HOURS
        + """
        const chart = lineChart(box, options()), before = box.querySelector("canvas"), [,
          end] = chart.range();
        await frame();
        const picture = before.toDataURL();
        chart.update({ series: [hours(30)] });
        await frame();
        const after = box.querySelector("canvas");
        return [before === after, chart.range()[1] - end, after.toDataURL() !== picture];
        """,
    )
    assert found == [True, 6 * 3600, True]


def test_a_part_that_ends_with_the_newest_unit_moves_on(modules: Modules) -> None:
    found = modules.run(
        "{ lineChart } from parts/chart.js",
        HOURS
        + """
        const chart = lineChart(box, options()), hour = (at) => (at - start) / 3600;
        const shown = [];
        chart.look([start + 12 * 3600, start + 24 * 3600]); shown.push(chart.range().map(hour));
        chart.update({ series: [hours(26)] }); shown.push(chart.range().map(hour));
        chart.look([start + 2 * 3600, start + 8 * 3600]); chart.update({ series: [hours(28)] });
          shown.push(chart.range().map(hour));
        chart.look(null); shown.push(chart.range().map(hour));
        return shown;
        """,
    )
    assert found == [[12, 24], [14, 26], [2, 8], [0, 28]]


def test_zoom_by_buttons_stays_inside(modules: Modules) -> None:
    modules.run(
        "{ lineChart } from parts/chart.js",
        HOURS + "window.chart = lineChart(box, options()); window.start = start;",
    )
    page = modules.page
    for way in ("earlier", "out", "later", "all"):
        assert page.is_disabled(f"[data-way={way}]")
    page.click("[data-way=in]")
    page.click("[data-way=later]")
    assert page.evaluate("chart.range().map((at) => (at - start) / 3600)") == [12, 24]
    assert page.is_disabled("[data-way=later]")
    for _ in range(5):
        if page.is_enabled("[data-way=in]"):
            page.click("[data-way=in]")
    first, last = page.evaluate("chart.range().map((at) => (at - start) / 3600)")
    assert last - first == pytest.approx(4)
    page.click("[data-way=all]")
    assert page.evaluate("chart.range().map((at) => (at - start) / 3600)") == [0, 24]


def legend(modules: Modules) -> list[str]:
    return [item.strip() for item in modules.page.locator(".legend li").all_inner_texts()]


def test_the_legend_names_what_is_drawn_and_nothing_else(modules: Modules) -> None:
    modules.run(
        "{ lineChart } from parts/chart.js",
        HOURS + "window.chart = lineChart(box, options()); window.hours = hours;",
    )
    assert legend(modules) == [
        "published number",
        "95\u202f% interval",
        "repeats an earlier release",
    ]
    modules.page.evaluate("""() => {
      const plain = (name) => ({ ...hours(24, name), repeated: null, low: Array(24).fill(null) });
      chart.update({
        series: [plain("Zoo"), plain("Harbour")],
        marks: [{ time: hours(24).times[3], text: "Cup final", kind: "event" }],
      });
    }""")
    assert legend(modules) == ["Zoo", "Harbour", "event"]
    assert modules.page.locator(".marks li").all_inner_texts() == [
        "1\nCup final · Thu 1 Jan 2026, 03:00"
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_repeated_releases_and_intervals_look_different(modules: Modules, theme: str) -> None:
    """The same numbers without the flag, or without an interval, give other pixels."""
    found = modules.run(
        "{ lineChart } from parts/chart.js",
        HOURS
        + """
        document.documentElement.dataset.theme = given;
        const none = (series) => Array(series.units.length).fill(null);
        const changes = [(one) => one, (one) => ({ ...one, repeated: null }), (one) => ({ ...one,
          low: none(one), high: none(one) })];
        const pictures = new Set();
        for (const change of changes) {
          const chart = lineChart(box, options({ series: [change(hours(24))], range: [0, 300] }));
          await frame();
          pictures.add(chart.root.querySelector("canvas").toDataURL());
          chart.destroy();
        }
        return [pictures.size, box.children.length];
        """,
        theme,
    )
    assert found == [3, 0]


def test_the_theme_changes_a_chart_that_is_there(modules: Modules) -> None:
    found = modules.run(
        "{ lineChart } from parts/chart.js",
        HOURS
        + """
        const chart = lineChart(box, options()), picture = () =>
          box.querySelector("canvas").toDataURL();
        await frame();
        const light = picture();
        globalThis.chooseTheme("dark");
        await frame();
        const dark = picture();
        globalThis.chooseTheme("light");
        await frame();
        return [light !== dark, light === picture()];
        """,
    )
    assert found == [True, True]


def test_a_table_with_all_numbers_is_behind_a_figure(modules: Modules) -> None:
    modules.run(
        "{ figure } from parts/figure.js",
        HOURS
        + """
        const { tableOf } = await import("/assets/parts/answers.js");
        figure(box, {
          text, title: "Zoo", note: ["Sure.", "Very."],
            call: "/v1/streams/a%20b/answers/counts?key=Zoo&last=24",
          table: () => tableOf([hours(24)], { text, format }),
        });
        """,
    )
    page = modules.page
    assert page.inner_text(".sure p") == "Sure. Very."
    assert (
        page.get_attribute(".address", "href") == "/v1/streams/a%20b/answers/counts?key=Zoo&last=24"
    )
    assert (
        page.get_attribute(".as", "href") == "/v1/streams/a%20b/answers/counts.csv?key=Zoo&last=24"
    )
    assert page.locator("tbody tr").count() == 0
    page.click("summary")
    page.wait_for_selector("tbody tr")
    rows = page.locator("tbody tr")
    assert rows.count() == 24
    assert rows.first.inner_text().split("\t")[:4] == ["Thu 1 Jan 2026, 23:00", "240", "235", "245"]


HEAT = """
const { colourScale } = await import("/assets/parts/colour_scale.js");
const series = ["North", "South", "West"].map((name, at) => hours(24 + 0 * at, name));
window.opened = [];
heatCanvas(box, {
  names: series.map(({ name }) => name), times: series[0].times, ends: series[0].ends,
    rows: series.map(({ estimate }) => estimate),
  scale: colourScale([0, 240]), zone: "UTC", text, format, label: "heat",
  read: (row, column) => [`${series[row].name} ${series[row].estimate[column]}`], open: (row,
    column) => opened.push([row, column]),
});
"""


def test_keys_move_through_the_cells_of_a_heat_map(modules: Modules) -> None:
    modules.run("{ heatCanvas } from parts/heat_canvas.js", HOURS + HEAT)
    page = modules.page
    page.focus("canvas.heat")
    for key, shown in [
        ("ArrowLeft", "North 240"),
        ("ArrowDown", "South 240"),
        ("ArrowLeft", "South 230"),
        ("Home", "South 10"),
        ("ArrowUp", "North 10"),
        ("ArrowUp", "North 10"),
        ("PageDown", "West 10"),
    ]:
        page.keyboard.press(key)
        assert readout(modules) == shown
    page.keyboard.press("Enter")
    assert page.evaluate("opened") == [[2, 0]]


LUMINANCE = """
const linear = (part) => (part <= 10.31475 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4);
const luminance = ([red, green, blue]) =>
  0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
document.documentElement.dataset.theme = given;
const { css } = await import("/assets/parts/dom.js");
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lightness_alone_carries_the_number_of_a_cell(modules: Modules, theme: str) -> None:
    found: list[float] = modules.run(
        "{ colourScale, toRgb } from parts/colour_scale.js",
        LUMINANCE
        + """
        const scale = colourScale([0, 100]);
        return Array.from({ length: 101 }, (_, value) => luminance(scale.rgb(value)));
        """,
        theme,
    )
    steps = [later - earlier for earlier, later in pairwise(found)]
    assert all(step > 0 for step in steps) or all(step < 0 for step in steps)
    assert max(found) / min(found) > 10


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_and_texts_stand_out_from_the_paper(modules: Modules, theme: str) -> None:
    """WCAG 2: 3 to 1 for lines, 4.5 to 1 for texts."""
    found: dict[str, list[float]] = modules.run(
        "{ toRgb } from parts/colour_scale.js",
        LUMINANCE
        + """
        const against = (names, paper) => names.map((name) => contrast(toRgb(css(name)),
          toRgb(css(paper))));
        return {
          lines: against(["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--limit"], "--card"),
          texts: ["--card", "--bg"].flatMap((paper) => against(["--ink", "--muted", "--release",
            "--good", "--bad", "--note"], paper)),
          buttons: against(["--on-release"], "--release"),
        };
        """,
        theme,
    )
    assert min(found["lines"]) >= 3
    assert min(found["texts"] + found["buttons"]) >= 4.5


def test_a_search_field_offers_keys_and_takes_one_by_keyboard(modules: Modules) -> None:
    modules.run(
        "{ keySearch } from parts/controls.js",
        HOURS
        + """
        window.chosen = [];
        const keys = ["Harbour", "Market", "Zoo"];
        box.append(keySearch({
          label: "Key", value: "Zoo", text, choose: (value) => chosen.push(value),
          search: async (words) => keys.filter((key) =>
            key.toLowerCase().includes(words.toLowerCase())).map((key) => ({ value: key,
            name: key })),
        }));
        """,
    )
    page, field = modules.page, modules.page.get_by_role("combobox", name="Key")
    field.focus()
    page.wait_for_selector("[role=option]")
    assert page.locator("[role=option]").all_inner_texts() == ["Harbour", "Market", "Zoo"]
    page.keyboard.type("ar")
    page.wait_for_function("() => document.querySelectorAll('[role=option]').length === 2")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("[role=option] >> nth=1", "aria-selected") == "true"
    page.keyboard.press("Enter")
    assert page.evaluate("chosen") == ["Market"]
    assert field.input_value() == "Market"
    assert field.get_attribute("aria-expanded") == "false"
    page.keyboard.type("nothing like it")
    page.wait_for_selector(".none")
    page.keyboard.press("Escape")
    assert field.input_value() == "Market"


def test_a_key_is_never_read_as_markup(modules: Modules) -> None:
    name = "<img src=x onerror=alert(1)>"
    found: Any = modules.run(
        "{ barList } from parts/bars.js",
        HOURS
        + """
        box.append(barList([{ name: given, estimate: 3, low: 1, high: 5, href: "#/" }], { format,
          text, label: given }));
        return [box.querySelectorAll("img").length, box.querySelector(".name").textContent];
        """,
        name,
    )
    assert found == [0, name]


def test_the_focus_goes_on_from_a_search_field_whose_list_is_open(modules: Modules) -> None:
    """A list that scrolls can take the focus; it must not, since it closes with the field."""
    modules.run(
        "{ keySearch } from parts/controls.js",
        HOURS
        + """
        const keys = Array.from({ length: 50 }, (_, at) => ({ value: `${at}`, name: `${at}` }));
        const button = document.createElement("button");
        box.append(keySearch({
          label: "Key", value: "1", text, choose: () => {}, search: async () => keys,
        }), button);
        """,
    )
    modules.page.get_by_role("combobox", name="Key").focus()
    modules.page.wait_for_selector("[role=option]")
    modules.page.keyboard.press("Tab")
    assert modules.page.evaluate("document.activeElement.tagName") == "BUTTON"
    assert modules.page.is_hidden("[role=listbox]")
