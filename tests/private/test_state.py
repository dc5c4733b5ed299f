"""Snapshots: what goes in comes out, and nothing else is believed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import StateError
from penstock.private import state
from penstock.private.mechanisms.base import Mechanism
from penstock.private.mechanisms.registry import MECHANISMS
from penstock.private.mechanisms.uniform import Uniform
from penstock.private.noise import NoNoise, SystemNoise, TestNoise
from penstock.private.state import (
    IN_PIECES,
    MAGIC,
    VERSION,
    decode,
    encode,
    encode_in_pieces,
)

EVERY = pytest.mark.parametrize("cls", MECHANISMS.values(), ids=MECHANISMS.keys())


def counts(units: int, keys: int = 3) -> list[list[int]]:
    rng = np.random.default_rng(1)
    return (rng.poisson(20, (units, keys)) + 300 * (np.arange(units) // 5 % 2)[:, None]).tolist()


def seal(body: bytes) -> bytes:
    """A snapshot of any content, with the right digest."""
    return MAGIC + VERSION.to_bytes(2, "big") + hashlib.sha256(body).digest() + body


@pytest.mark.slow
@EVERY
def test_a_restart_changes_nothing(cls):
    rows = counts(30)
    mechanism = cls(epsilon="1", window=5)
    straight = mechanism.run(3, noise=TestNoise(9), record=True)
    broken = mechanism.run(3, noise=TestNoise(9), record=True)
    for row in rows:
        broken = mechanism.restore(broken.snapshot(), 3, noise=TestNoise(9), record=True)
        one, two = straight.step(row), broken.step(row)
        assert one.value.tolist() == two.value.tolist()
        assert np.array_equal(one.repeated, two.repeated)
        assert one.scale.floats().tolist() == two.scale.floats().tolist()
        assert np.array_equal(one.layers, two.layers)
        assert (one.unit, one.guarantee) == (two.unit, two.guarantee)
        assert straight.cost == broken.cost
    assert straight.ledger == broken.ledger
    assert straight.snapshot() == broken.snapshot()


@EVERY
def test_what_was_restored_can_be_changed_by_nobody(cls):
    mechanism = cls(epsilon="1", window=5)
    run = mechanism.run(3, noise=TestNoise(9))
    for row in counts(8):
        run.step(row)
    last = mechanism.restore(run.snapshot(), 3, noise=TestNoise(9)).last
    assert not last.value.flags.writeable


def test_a_snapshot_does_not_change_when_the_run_goes_on():
    mechanism = MECHANISMS["ba"](epsilon="1", window=5)
    run = mechanism.run(3, noise=TestNoise(9))
    run.step([1, 2, 3])
    saved = run.snapshot()
    copy = bytes(saved)
    one = run.step([100, 200, 300]).value.tolist()
    assert saved == copy
    assert (
        mechanism.restore(saved, 3, noise=TestNoise(9)).step([100, 200, 300]).value.tolist() == one
    )


def test_a_snapshot_of_something_else_is_refused():
    saved = MECHANISMS["ba"](epsilon="1", window=5).run(["a", "b"], noise=NoNoise()).snapshot()
    refusals = [
        (MECHANISMS["bd"](epsilon="1", window=5), ["a", "b"], "mechanism 'ba', not 'bd'"),
        (
            MECHANISMS["ba"](epsilon="2", window=5),
            ["a", "b"],
            "another configuration: epsilon=1 there, 2 here",
        ),
        (
            MECHANISMS["ba"](epsilon="1", window=6),
            ["a", "b"],
            "another configuration: window=5 there, 6 here",
        ),
        (
            MECHANISMS["ba"](epsilon="1", window=5, contribution=2),
            ["a", "b"],
            "another configuration: contribution",
        ),
        (MECHANISMS["ba"](epsilon="1", window=5), ["b", "a"], "another domain"),
        (MECHANISMS["ba"](epsilon="1", window=5), ["a", "b", "c"], "another domain"),
        (MECHANISMS["ba"](epsilon="1", window=5), ["ab", ""], "another domain"),
    ]
    for mechanism, domain, message in refusals:
        with pytest.raises(StateError, match=message):
            mechanism.restore(saved, domain, noise=NoNoise())


def test_a_snapshot_of_another_version_is_refused():
    saved = Uniform(epsilon="1", window=5).run(2, noise=NoNoise()).snapshot()
    later = saved[: len(MAGIC)] + (IN_PIECES + 1).to_bytes(2, "big") + saved[len(MAGIC) + 2 :]
    with pytest.raises(
        StateError,
        match=f"format version {IN_PIECES + 1}; this Penstock reads versions {VERSION} and ",
    ):
        Uniform(epsilon="1", window=5).restore(later, 2, noise=NoNoise())


def test_a_snapshot_with_any_byte_changed_or_cut_off_is_refused():
    mechanism = MECHANISMS["ba"](epsilon="1", window=2)
    run = mechanism.run(2, noise=TestNoise(5))
    for row in counts(3, 2):
        run.step(row)
    saved = run.snapshot()
    fresh = mechanism.run(2, noise=NoNoise())
    for place in range(len(saved)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(saved)
            damaged[place] ^= flip
            with pytest.raises(StateError):
                fresh.load(bytes(damaged))
        with pytest.raises(StateError):
            fresh.load(saved[:place])
    with pytest.raises(StateError):
        fresh.load(saved + b"\0")
    assert (fresh.unit, fresh.cost.epsilon) == (0, 0)
    fresh.load(saved)
    assert fresh.unit == 3


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc0",
        b"\x93\x01\x02\x03",
        msgspec.msgpack.encode({}),
        msgspec.msgpack.encode({"map": []}),
        msgspec.msgpack.encode({"map": 5}),
        msgspec.msgpack.encode({"class": "os.system", "fields": {}}),
        msgspec.msgpack.encode({"ratio": "1/0"}),
        msgspec.msgpack.encode({"map": [["mechanism", "uniform"]]}),
        msgspec.msgpack.encode({"map": [[{"map": []}, 1]]}),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(9, b"?")),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"")),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"\x00\x01\xc0")),
    ],
)
def test_a_snapshot_that_was_made_up_is_refused(body):
    with pytest.raises(StateError):
        Uniform(epsilon="1", window=5).restore(seal(body), 2, noise=NoNoise())


def test_a_snapshot_is_loaded_into_a_new_run_only():
    run = Uniform(epsilon="1", window=5).run(2, noise=NoNoise())
    run.step([1, 2])
    with pytest.raises(StateError, match="new run only"):
        run.load(run.snapshot())


def test_what_test_noise_has_touched_is_never_private_again():
    mechanism = MECHANISMS["ba"](epsilon="1", window=5)
    run = mechanism.run(3, noise=TestNoise(9))
    run.step([1, 2, 3])
    for _ in range(3):
        run = mechanism.restore(run.snapshot(), 3, noise=SystemNoise())
        assert not run.step([500, 1, 500]).private
    clean = mechanism.run(3)
    clean.step([1, 2, 3])
    assert mechanism.restore(clean.snapshot(), 3).step([500, 1, 500]).private
    assert not mechanism.restore(clean.snapshot(), 3, noise=NoNoise()).step([500, 1, 500]).private


# -- snapshots in pieces ---------------------------------------------------------------------------


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces of two numbers."""
    monkeypatch.setattr(state, "PIECE_BYTES", 16)


def stored(snapshot):
    """The pieces of a snapshot as a store has them."""
    return {name: bytes(piece.content) for name, piece in snapshot.pieces.items()}


@EVERY
def test_a_restart_from_pieces_changes_nothing(cls, small_pieces):
    mechanism = cls(epsilon="1", window=5)
    straight = broken = mechanism.run(5, noise=TestNoise(9))
    for row in counts(7, 5):
        saved, again = broken.snapshot_in_pieces(), mechanism.run(5, noise=TestNoise(9))
        again.load(saved.head, stored(saved))
        assert again.snapshot() == straight.snapshot()
        straight.step(row)
        broken = again
        broken.step(row)
    assert len(saved.pieces) >= 3


def test_a_snapshot_without_large_arrays_is_whole():
    run = MECHANISMS["tide"](epsilon="1", window=5, periods=(24, 168)).run(40, noise=TestNoise(9))
    run.step([1] * 40)
    saved = run.snapshot_in_pieces()
    assert (saved.head, saved.pieces) == (run.snapshot(), {})


def test_a_season_table_changes_in_few_pieces():
    """A table of seasons has one row per phase, and a unit corrects the rows of its own phases."""
    run = MECHANISMS["tide"](epsilon="500", window=1, periods=(24, 168)).run(3_000, noise=NoNoise())
    rng, sizes = np.random.default_rng(5), []
    before = {}
    for _ in range(6):
        run.step(rng.poisson(100, 3_000))
        pieces = run.snapshot_in_pieces().pieces
        changed = [name for name, piece in pieces.items() if before.get(name) != piece.digest]
        before = {name: piece.digest for name, piece in pieces.items()}
        sizes.append(sum(len(pieces[name].content) for name in changed))
    assert sizes[0] > 4_500_000
    assert sizes[-1] < 1_500_000


def test_only_what_anybody_may_know_is_compared(small_pieces):
    run = MECHANISMS["pegasus"](epsilon="1", window=5).run(5, noise=TestNoise(9))
    for _ in range(3):
        run.step([0] * 5)
    pieces = run.snapshot_in_pieces().pieces
    compared = {name.partition(" ")[0] for name, piece in pieces.items() if piece.compared}
    others = {name.partition(" ")[0] for name, piece in pieces.items() if not piece.compared}
    assert (compared, others) == ({"state", "last"}, {"secrets", "ledger"})


@pytest.mark.parametrize(
    "array",
    [
        np.arange(50) % 3 == 0,
        np.arange(50, dtype=">i4").reshape(5, 10),
        np.asfortranarray(np.arange(60.0).reshape(5, 12)),
        np.arange(100, dtype=np.float32)[::2],
        np.arange(30) * 1j,
        np.arange(40).astype("M8[s]"),
    ],
    ids=lambda array: array.dtype.str,
)
def test_arrays_of_any_type_and_order_come_back_from_pieces(array, small_pieces):
    saved = encode_in_pieces({"state": array}, [])
    assert len(saved.pieces) > 1
    back = decode(saved.head, [], stored(saved))["state"]
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert np.array_equal(back, array)
    assert back.flags.writeable


def test_a_piece_that_is_missing_or_another_one_is_refused(small_pieces):
    saved, other = (encode_in_pieces({"state": np.arange(8) + more}, []) for more in (0, 1))
    pieces = stored(saved)
    for name in pieces:
        without = {each: content for each, content in pieces.items() if each != name}
        with pytest.raises(StateError, match="a piece of this snapshot is missing"):
            decode(saved.head, [], without)
        for wrong in (
            stored(other)[name],
            pieces[name][:-1],
            pieces[name] + b"\0",
            b"",
            pieces["state 0 0" if name != "state 0 0" else "state 0 1"],
        ):
            with pytest.raises(StateError, match="not the one that it was saved with"):
                decode(saved.head, [], pieces | {name: wrong})
    with pytest.raises(StateError, match="not the one that it was saved with"):
        decode(other.head, [], pieces)
    with pytest.raises(StateError, match="missing"):
        decode(saved.head, [])


def test_pieces_of_another_size_are_read(monkeypatch):
    monkeypatch.setattr(state, "PIECE_BYTES", 24)
    saved = encode_in_pieces({"state": np.arange(8)}, [])
    pieces = stored(saved)
    monkeypatch.undo()
    assert decode(saved.head, [], pieces)["state"].tolist() == list(range(8))


@pytest.mark.parametrize("version", [VERSION, IN_PIECES])
def test_a_version_that_does_not_match_the_content_is_refused(version, small_pieces):
    array = np.arange(2 if version == IN_PIECES else 20)
    saved = encode_in_pieces({"state": array}, [])
    at = len(MAGIC)
    wrong = saved.head[:at] + version.to_bytes(2, "big") + saved.head[at + 2 :]
    with pytest.raises(StateError, match="its version does not match its content"):
        decode(wrong, [], stored(saved))


@pytest.mark.parametrize(
    "form", [("<i8", [8], "state 0", 0, b""), ("|O", [8], "state 0", 16, b""), ("<i8", [-1])]
)
def test_an_array_in_pieces_that_was_made_up_is_refused(form):
    body = msgspec.msgpack.encode(msgspec.msgpack.Ext(2, msgspec.msgpack.encode(form)))
    with pytest.raises(StateError):
        decode(seal(body), [], {})


# -- states of third parties -----------------------------------------------------------------------


@dataclass(frozen=True)
class Inner:
    ratio: Fraction
    rows: np.ndarray


@dataclass(frozen=True)
class Outer:
    inner: Inner | None
    many: list[Inner]
    pair: tuple[Inner, int]
    by_name: Mapping[str, Inner]
    odd: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StateLine:
    """Named like one of ours."""

    inner: Inner
    colour: str


@dataclass(frozen=True)
class Stranger:
    value: int = 5


@dataclass(frozen=True)
class Vague:
    anything: Any


def third_party(state_class, state):
    @dataclass(frozen=True, kw_only=True)
    class ThirdParty(Mechanism):
        name = "third"
        State = state_class

        def start(self, domain):
            return state

        def step(self, state, unit, gate):
            return state, gate.laplace(unit, epsilon=self.total // self.window, label="publish")

    return ThirdParty(epsilon="1", window=3)


def there_and_back(mechanism):
    run = mechanism.run(2, noise=NoNoise())
    run.step([1, 2])
    return mechanism.restore(run.snapshot(), 2, noise=NoNoise())._state


def test_a_nested_state_of_a_third_party_comes_back():
    inner = Inner(Fraction(1, 3), np.arange(6, dtype=np.int16).reshape(2, 3))
    state = Outer(
        inner,
        [inner],
        (inner, 2**100),
        {"a": inner},
        {(1, 2): [None, True, "x", b"y", 1.5, -(2**70)]},
    )
    back = there_and_back(third_party(Outer, state))
    assert isinstance(back, Outer)
    for part in (back.inner, back.many[0], back.pair[0], back.by_name["a"]):
        assert isinstance(part, Inner)
        assert part.ratio == Fraction(1, 3)
        assert part.rows.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert part.rows.dtype == np.int16
    assert back.pair[1] == 2**100
    assert back.odd == state.odd


def test_a_third_partys_class_may_be_named_like_one_of_ours():
    state = StateLine(Inner(Fraction(1), np.zeros(1)), "red")
    back = there_and_back(third_party(StateLine, state))
    assert type(back) is StateLine
    assert back.colour == "red"


def test_what_could_not_be_read_back_is_not_written():
    run = third_party(Vague, Vague(Stranger())).run(2, noise=NoNoise())
    with pytest.raises(StateError):
        run.snapshot()


@pytest.mark.parametrize(
    "wrong",
    [
        {1, 2},
        object(),
        1j,
        Stranger,
        lambda: 0,
        np.array([None, 1]),
        np.zeros(2, [("a", "i8"), ("b", "f4")]),
    ],
)
def test_what_is_no_plain_data_is_not_written(wrong):
    run = third_party(Vague, Vague(wrong)).run(2, noise=NoNoise())
    with pytest.raises(StateError):
        run.snapshot()


def test_a_class_that_nobody_named_is_refused():
    with pytest.raises(StateError, match="cannot be read here"):
        decode(
            seal(msgspec.msgpack.encode({"map": [["state", {"class": "Stranger", "fields": {}}]]})),
            [Vague],
        )


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.fractions()
)
keys = (
    st.integers() | st.text() | st.booleans() | st.fractions() | st.tuples(st.integers(), st.text())
)
plain = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner, max_size=3)
    ),
)


@given(plain)
@settings(derandomize=True, deadline=None)
def test_plain_data_comes_back_as_it_was(value):
    back = decode(encode({"value": value}, []), [])["value"]
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 0), (2, 3), ()])
@pytest.mark.parametrize("kind", ["i8", ">i4", "u1", "f8", "?", "U3", "M8[s]"])
def test_arrays_come_back_as_they_were(kind, shape):
    array = np.zeros(shape, kind)
    back = decode(encode({"value": array}, []), [])["value"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert (back == array).all()


def test_a_part_of_an_array_comes_back_as_it_was():
    array = np.arange(12).reshape(3, 4)
    for part in (array[:, ::2], array.T, array[::-1]):
        assert decode(encode({"value": part}, []), [])["value"].tolist() == part.tolist()
