"""Keyed links and signatures of a store, against somebody who can write to it and has no key."""

from __future__ import annotations

import sqlite3

import pytest

from penstock.core.errors import LedgerError, StateError
from penstock.engine.chain import Head, HeadFile, head_message
from penstock.engine.export import export
from penstock.engine.sealing import Key
from penstock.engine.signing import PublicKey, SigningKey
from penstock.engine.sqlite import SQLiteReader, SQLiteStore

from tests.engine.places import (
    KEY,
    KINDS,
    SQLitePlace,
    commit,
    filled,
    fresh,
    opened,
    stream,
    telling,
)

SIGNING = SigningKey(bytes(range(1, 33)))
KEYS = {"key": KEY, "signing_key": SIGNING}
FORGER = SigningKey(bytes(range(2, 34)))
MOVE = "UPDATE releases SET {0} = (SELECT {0} FROM releases WHERE unit = 3) WHERE unit = 4"


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    with opened(request.param, tmp_path) as place:
        yield place


@pytest.fixture
def forged(tmp_path):
    """A signed store whose history somebody has replaced by another one, with fresh links.

    `keep` are the columns that are left as they were, `signing_key` is the forger's own.
    """

    def forge(*keep, signing_key=None):
        place = SQLitePlace(tmp_path)
        filled(place, **KEYS)
        other = tmp_path / "forged.db"
        with SQLiteStore(other, signing_key=signing_key) as store:
            run = fresh(seed=4, record=True)
            store.begin(stream(run))
            for _ in range(7):
                commit(store, run)
        file = sqlite3.connect(place.path, isolation_level=None)
        file.execute(f"ATTACH '{other}' AS other")
        file.execute("CREATE TEMP TABLE kept AS SELECT unit, mac, signature FROM releases")
        for table in ("releases", "lines"):
            file.execute(f"DELETE FROM {table}")
            file.execute(f"INSERT INTO {table} SELECT * FROM other.{table}")
        for column in keep:
            file.execute(
                f"UPDATE releases SET {column} = "
                f"(SELECT {column} FROM kept WHERE kept.unit = releases.unit)"
            )
        file.close()
        return place

    return forge


# -- what a store keeps ----------------------------------------------------------------------------


def test_every_unit_has_a_keyed_link_and_a_signature(place):
    run = filled(place, **KEYS)
    with place.reader() as reader:
        verified = reader.verify("visits", public_key=SIGNING.public, key=KEY)
        assert (verified.signed_from, verified.keyed_from) == (1, 1)
        assert verified.signed_by == SIGNING.public
        assert verified.links == 7 + len(list(reader.lines("visits")))
        for unit in range(1, 8):
            SIGNING.public.check("visits", reader.at("visits", unit))
            link, mac = reader.keyed_link("visits", unit)
            assert mac == KEY.authenticate(head_message("visits", Head(unit, link)))
    with place.store(**KEYS) as store:
        store.begin(stream(run))
        assert store.last("visits").unit == 7
        assert commit(store, run).signature is not None


def test_without_keys_the_chain_is_the_same_and_nothing_is_signed(place, tmp_path):
    filled(place)
    with place.reader() as reader:
        verified = reader.verify("visits")
        head = reader.head("visits")
    assert (verified.signed_from, verified.signed_by, verified.keyed_from) == (None, None, None)
    assert head.signature is None
    signed = SQLitePlace(tmp_path / "signed")
    signed.path.parent.mkdir()
    filled(signed, **KEYS)
    with signed.reader() as reader:
        assert reader.head("visits") == head


def test_a_chain_goes_on_with_keys_and_says_from_which_unit(place):
    run = filled(place)
    with place.store(**KEYS) as store:
        store.begin(stream(run))
        for _ in range(3):
            commit(store, run)
    with place.reader() as reader:
        verified = reader.verify("visits", public_key=SIGNING.public, key=KEY)
    assert (verified.signed_from, verified.keyed_from, verified.head.unit) == (8, 8, 10)
    with place.store(**KEYS) as store:
        store.begin(stream(run))
        assert store.last("visits").unit == 10


def test_a_head_file_has_the_signature_beside_the_head(place, tmp_path):
    filled(place, head=tmp_path / "head", **KEYS)
    noted = HeadFile(tmp_path / "head").read()["visits"]
    SIGNING.public.check("visits", noted)
    with place.reader() as reader:
        assert noted == reader.head("visits")


def test_an_export_has_the_signatures_and_an_old_export_gets_them(place, tmp_path):
    run = filled(place)
    with place.reader() as reader:
        export(reader, tmp_path / "public.db")
    with place.store(**KEYS) as store:
        store.begin(stream(run))
        commit(store, run)
    with place.reader() as reader:
        export(reader, tmp_path / "public.db")
    with SQLiteReader(tmp_path / "public.db") as copy:
        assert copy.verify("visits", public_key=SIGNING.public, key=KEY).signed_from == 8
        SIGNING.public.check("visits", copy.head("visits"))


# -- what the publisher refuses --------------------------------------------------------------------


def test_a_signed_chain_does_not_go_on_without_its_signing_key(place):
    run = filled(place, **KEYS)
    with place.store(key=KEY) as store, pytest.raises(StateError, match="there is no signing key"):
        store.begin(stream(run))
    with (
        place.store(key=KEY, signing_key=FORGER) as store,
        pytest.raises(LedgerError, match=f"made with another key, {SIGNING.public.fingerprint}"),
    ):
        store.begin(stream(run))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE releases SET mac = NULL WHERE unit = 7",
        "UPDATE releases SET signature = NULL WHERE unit = 7",
        "UPDATE releases SET mac = zeroblob(32) WHERE unit = 7",
        "UPDATE releases SET signature = zeroblob(96) WHERE unit = 7",
        "UPDATE secrets SET key = '' WHERE part = 'state'",
    ],
)
def test_a_publisher_does_not_go_on_from_a_unit_that_lost_its_proofs(place, statement):
    run = filled(place, **KEYS)
    place.tamper(statement)
    with place.store(**KEYS) as store, pytest.raises((LedgerError, StateError)):
        store.begin(stream(run))


@pytest.mark.parametrize("keep", [(), ("mac",), ("signature",), ("mac", "signature")])
def test_a_publisher_does_not_go_on_from_a_rewritten_history(forged, keep):
    place = forged(*keep)

    def go_on(store):
        store.begin(stream(fresh()))
        store.last("visits")

    with place.store(**KEYS) as store, pytest.raises((LedgerError, StateError)):
        go_on(store)


# -- what a reader finds ---------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [(), ("mac",), ("signature",), ("mac", "signature")])
def test_a_rewritten_history_is_told_by_the_public_key_alone(forged, keep):
    with (
        forged(*keep).reader() as reader,
        pytest.raises(LedgerError, match=r"is not signed|signature of unit \d is wrong"),
    ):
        reader.verify("visits", public_key=SIGNING.public)


@pytest.mark.parametrize("keep", [(), ("mac",), ("signature",), ("mac", "signature")])
def test_a_rewritten_history_is_told_by_the_key_of_the_state(forged, keep):
    with forged(*keep).reader() as reader:
        if not keep:
            assert reader.verify("visits").signed_from is None  # the links are all right
        with pytest.raises(LedgerError, match=r"rewritten|signature of unit \d is wrong"):
            reader.verify("visits", key=KEY)


def test_a_forgers_own_public_key_is_told_from_the_publishers(forged):
    with forged(signing_key=FORGER).reader() as reader:
        assert reader.verify("visits").signed_by == FORGER.public
        with pytest.raises(LedgerError, match=f"another key, {FORGER.public.fingerprint}"):
            reader.verify("visits", public_key=PublicKey(SIGNING.public.raw))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE releases SET signature = NULL WHERE unit = 4", "unit 4 is not signed, and units"),
        ("UPDATE releases SET signature = NULL WHERE unit > 4", "unit 5 is not signed, and units"),
        ("UPDATE releases SET mac = NULL WHERE unit = 7", "unit 7 has no keyed link, and units"),
        (MOVE.format("signature"), "signature of unit 4 is wrong"),
        (MOVE.format("mac"), "keyed link of unit 4"),
    ],
)
def test_lost_or_moved_proofs_are_found(place, statement, message):
    filled(place, **KEYS)
    place.tamper(statement)
    with place.reader() as reader, pytest.raises(LedgerError, match=message):
        reader.verify("visits", key=KEY)


@pytest.mark.parametrize("column", ["mac", "signature"])
def test_every_flipped_byte_of_a_proof_is_found(tmp_path, column):
    place = SQLitePlace(tmp_path)
    filled(place, 2, **KEYS)
    ((content,),) = place.rows(f"SELECT {column} FROM releases WHERE unit = 2")
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 0x10
        place.tamper(f"UPDATE releases SET {column} = x'{changed.hex()}' WHERE unit = 2")
        with place.reader() as reader, pytest.raises(LedgerError, match="unit 2"):
            reader.verify("visits", key=KEY)


@pytest.mark.parametrize("value", ["'text'", "7", "x''", "x'00'", "1.5"])
@pytest.mark.parametrize("column", ["mac", "signature"])
def test_a_proof_of_another_kind_is_found(tmp_path, column, value):
    place = SQLitePlace(tmp_path)
    filled(place, 2, **KEYS)
    place.tamper(f"UPDATE releases SET {column} = {value} WHERE unit = 2")
    with place.reader() as reader, pytest.raises(LedgerError, match="unit 2"):
        reader.verify("visits", key=KEY)


def test_units_deleted_at_the_end_need_a_noted_head(place):
    filled(place, run=telling(), **KEYS)
    with place.reader() as reader:
        noted = reader.head("visits")
    place.tamper("DELETE FROM releases WHERE unit > 4", "DELETE FROM lines WHERE unit > 4")
    with place.reader() as reader:
        assert reader.verify("visits", public_key=SIGNING.public).head.unit == 4
        with pytest.raises(StateError, match="restored from an old backup"):
            reader.verify("visits", public_key=SIGNING.public, head=noted)
        with pytest.raises(LedgerError, match="the state in the store"):
            reader.verify("visits", key=KEY)


def test_another_key_of_the_state_is_not_taken_for_a_rewritten_history_in_silence(place):
    filled(place, **KEYS)
    with place.reader() as reader, pytest.raises(LedgerError, match="or the key is another one"):
        reader.verify("visits", key=Key(bytes(32)))


# -- units that wait to be shown -------------------------------------------------------------------


def test_a_unit_that_waits_has_its_proofs_and_a_restart_shows_them(place, tmp_path):
    run = filled(place, 2, head=tmp_path / "head", **KEYS)
    with place.store(head=tmp_path / "head", **KEYS) as store:
        store.begin(stream(run))
        with store.together():
            head = commit(store, run)
        assert store.last("visits").head == head
    SIGNING.public.check("visits", head)
    with place.reader() as reader:
        assert reader.verify("visits", public_key=SIGNING.public, key=KEY).head.unit == 2
        assert reader.waiting_head("visits", KEY) == head
        assert reader.waiting_head("visits", None) is None
    with place.store(head=tmp_path / "head", **KEYS) as store:
        store.begin(stream(run))
        assert store.last("visits").head == store.head("visits") == head
        assert store.verify("visits", public_key=SIGNING.public, key=KEY).head.unit == 3
    SIGNING.public.check("visits", HeadFile(tmp_path / "head").read()["visits"])
