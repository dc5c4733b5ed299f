from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.core.errors import ConfigurationError
from penstock.engine.config_sections import (
    Document,
    InvalidConfigurationError,
    KeyPath,
    Problem,
    Section,
    dotted,
    nearest,
    parse,
    read,
    secret,
    secrets_in,
    shown,
)

# Every whole number in these documents is the number of the line that it stands in.

TRICKY = {
    "tables": "a = 1\n[b]\nc = 3\n\n[b.d]\ne = 6 # 7\n[ f . 'g h' ]\ni = 8",
    "comments": "# a = 9\n\n  # [b]\na = 4 # a = 9\n[c] # [[d]]\n# ]\ne=7",
    "multi-line strings": "a = \"\"\"\n[b]\nc = 9\n\"\"\"\nd = 5\ne = '''\nf = 9\n\\'''\ng = 9\n",
    "quotes in strings": (
        'a = "x\\"\\\\"\nb = 2\nc = \'\\\'\nd = 4\ne = """ "" \\""" """\nf = 6\n'
        "g = \"\"\"x\"\"\"\"\"\nh = 8\ni = ''''x'''''\nj = 10"
    ),
    "empty strings": "a = \"\"\nb = ''\nc = 3\nd = \"\"\"\"\"\"\ne = 5\nf = ''''''\ng = 7",
    "dotted keys": "a.b.c = 1\na . d = 2\na.'b'.\"e\" = 3\n[g]\nh.i = 5\nh.j.k = 6\n3.14 = 7",
    "quoted keys": (
        '\'a.b\' = 1\n"c\\u00e9\\"]" = 2\n"" = 3\n[\'# d\']\n\'=\' = 5\n[e."f.g"]\n"#" = 7'
    ),
    "arrays": "a = [1, 1,\n  2, # 9 ]\n  [3], [\n4\n, ], \"]\", '[', \n]\nb = 7",
    "inline tables": (
        "a = {b = 1, c.d = 1, 'e }' = {f = [1, {g = 1}]}, h = \"}\"}\n"
        "i = 2\nj = [{k = 3}, {k = 3},\n{k = 4}]\nl = {}"
    ),
    "arrays of tables": (
        "[[a]]\nb = 2\n[[a]]\nb = 4\n[a.c]\nd = 6\n[[a.e]]\nf = 8\n[[a.e]]\nf = 10\n"
        "[[a]]\n[[a.e]]\nf = 13\n[[g.h]]\ni = 15"
    ),
    "dates and numbers": (
        "a = 1979-05-27 07:32:00 # x\nb = 2\n"
        "c = [1979-05-27T07:32:00Z, 0x3, 1e9]\nd = 0.5\ne = inf\nf = 6"
    ),
    "carriage returns": 'a = 1\r\n[b]\r\nc = """\r\nd = 9\r\n"""\r\ne = 6\r\n',
}


def places(value: object, path: KeyPath = ()) -> dict[KeyPath, Any]:
    """Every path in a document, with what stands there."""
    found = {path: value} if path else {}
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, each in pairs:
        found |= places(each, (*path, name))
    return found


def check(text: str) -> None:
    document = parse(text, name="x.toml")
    expected = places(tomllib.loads(text))
    assert set(document.lines) == set(expected)
    numbers = {path: value for path, value in expected.items() if type(value) is int}
    assert {path: document.line(path) for path in numbers} == numbers


@pytest.mark.parametrize("text", TRICKY.values(), ids=TRICKY)
def test_every_key_has_the_line_that_it_stands_in(text):
    check(text)


STATEMENTS = [
    "{key} = {line}",
    "{key} = {line} # {key} = 0",
    "{key}.x.'y z' = {line}",
    '{key} = "{key} = 0 # \\" ["',
    "{key} = '{key} = 0 \\'",
    '{key} = """\n{key} = 0 \\"""\n[{key}]"""',
    "{key} = [ # ]\n'#', \"]\",\n]",
    "{key} = {{x = {line}, y = [{line}, {{z = {line}}}], w = '}}'}}",
    "[{key}]",
    "[[{key}]]",
    "[{key}.t]",
    "[[{key}.s]]",
    "# {key} = 0",
    "",
]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(STATEMENTS), st.sampled_from(["a", "b", "'c d'", '"e.f"', "g"])),
        max_size=12,
    )
)
def test_lines_are_right_in_documents_put_together_at_random(statements):
    text = ""
    for template, key in statements:
        text += template.format(key=key, line=text.count("\n") + 1) + "\n"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)
    check(text)


def test_what_is_not_in_the_file_has_the_line_of_what_is_around_it():
    document = parse("\n[a]\nb = 3\n[[c]]\nd = 5", name="x.toml")
    assert [document.line(path) for path in (("a", "z"), ("c", 0, "z", 1), ("c", 1), ("z",))] == [
        2,
        4,
        4,
        1,
    ]
    assert Document({"a": 1}).line(("a",)) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\nb = ", 2),
        ("a = 1\na = 2", 2),
        ("a = 1\n\nb", 3),
        ("[a]\n[a]", 2),
        ('\na = """\n\n', 4),
        ("a = [" * 5000, 1),
    ],
)
def test_what_is_not_toml_is_an_error_that_names_the_line(text, line):
    with pytest.raises(InvalidConfigurationError, match=rf"x\.toml:{line}: this is n") as caught:
        parse(text, name="x.toml")
    assert [problem.line for problem in caught.value.problems] == [line]


def test_no_depth_is_too_much_to_be_refused_in_words():
    refused = 0
    for depth in range(100, 1000, 50):
        try:
            parse(f"a = {'[' * depth}{']' * depth}", name="x.toml")
        except InvalidConfigurationError:
            refused += 1
    assert 0 < refused < 18


def test_what_is_not_utf8_is_an_error_that_names_the_line(tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b"a = 1\nb = '\xff'")
    with pytest.raises(InvalidConfigurationError, match=r"x\.toml:2: this is not UTF-8"):
        read(path)
    with pytest.raises(ConfigurationError, match=r"none\.toml cannot be read: there is no"):
        read(tmp_path / "none.toml")


def test_a_byte_order_mark_does_no_harm(tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1")
    assert read(path).content == {"a": 1}


def test_an_error_lists_all_problems_in_the_order_of_lines():
    error = InvalidConfigurationError(
        "x.toml", [Problem(("b",), "is wrong.", 7), Problem(("a", 0), "is bad.", 2)]
    )
    assert str(error) == "x.toml has 2 mistakes:\nx.toml:2: a[1]: is bad.\nx.toml:7: b: is wrong."
    assert str(InvalidConfigurationError("", [Problem(("a",), "is bad.")])) == "a: is bad."


def test_a_path_is_written_as_in_the_file():
    assert dotted(("a", 'b "c"', 1, "d")) == 'a."b \\"c\\""[2].d'


def test_nothing_is_guessed_that_is_far_away():
    assert nearest("colour", ["epsilon", "window"]) == ""


@pytest.mark.parametrize(
    "text",
    [
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x",
        "AKIAIOSFODNN7EXAMPLE",
        "me:hunter2@localhost:1883",
        "-----BEGIN PRIVATE KEY-----",
        "https://example.org/hook/T0a1B2c3D4e5F6g7H8i9J0k1L2",
        "c2VjcmV0LXRva2VuLTEyMzQ1Njc4OTA=",
    ],
)
def test_a_secret_is_recognised_and_never_shown(text):
    assert secret(text)
    assert text not in shown(text)


@pytest.mark.parametrize(
    "text",
    [
        "data/2024/taps-per-station-and-hour-of-the-day.parquet",
        "postgresql://publisher@db.example.org:5432/penstock",
        "penstock.private.mechanisms.ba:BudgetAbsorption",
        "PENSTOCK_OPERATOR_TOKEN_2",
        "2026-01-01T00:00:00+01:00",
        "sk-learn",
        "internationalisation2026release",
    ],
)
def test_an_ordinary_text_is_not_taken_for_a_secret(text):
    assert not secret(text)
    assert shown(text) == f'"{text}"'


def test_no_value_is_shown_by_accident():
    document = parse("password = 'hunter2'", name="x.toml")
    assert "hunter2" not in repr(document) + repr(Section.of(document))


def test_secrets_are_found_wherever_they_stand():
    token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    assert list(secrets_in({"a": [{"b": "fine"}, {"b": token}], "c": 1, "d": token})) == [
        ("a", 1, "b"),
        ("d",),
    ]


def test_each_reader_notes_what_it_cannot_take_and_goes_on():
    text = (
        "a = 1\nb = 'x'\nc = 'x'\nd = []\ne = 0.1\nf = 'not a name'\n"
        "g = 1\nh = 1\nk = 'y'\ntoken = 'z'\nspel = 1"
    )
    section = Section.of(parse(text, name="x.toml"))
    assert section.text("a", "fine", example="z") == "fine"
    assert section.whole("b", 3, least=1, most=9) == 3
    assert section.flag("c", default=True)
    assert section.texts("d", example="z") == ()
    assert not section.exactly("e")
    assert section.variable("f") is None
    assert section.table("g").content == {}
    assert section.tables("h") == []
    assert section.text("k", among=("x", "yes")) == ""
    assert section.text("spell", example="abra") == ""
    section.close()
    said = {problem.line: problem.message for problem in section.problems}
    assert 'write a text such as a = "z"' in said[1] or "spell is missing" in said[1]
    assert said[2] == 'must be a whole number of at least 1 and at most 9, not "x".'
    assert said[3] == 'must be true or false, not "x".'
    assert said[4] == 'must not be empty: write d = "z".'
    assert said[5].endswith('Write e = "0.1".')
    assert said[6].startswith("must be the name of an environment variable")
    assert "not a name" not in said[6]
    assert said[7] == "must be a table [g], not 1."
    assert said[8] == "must be tables, each headed [[h]], not 1."
    assert said[9].startswith('"y" is not known: use x, yes.')
    assert said[10].startswith("is not known, and no secret belongs in this file")
    assert said[11].endswith("Did you mean spell?")
    assert len(section.problems) == 12
