from __future__ import annotations

import pickle

import pytest

from penstock.core.errors import ConfigurationError, StateError
from penstock.engine.sealing import Key

SECRET = bytes(range(32))


def test_what_was_sealed_comes_back_and_cannot_be_seen():
    key, content = Key(SECRET), b"threshold noise" * 10
    sealed = key.seal(content, about=b"unit 7")
    assert key.reveal(sealed, about=b"unit 7") == content
    assert b"threshold" not in sealed
    assert len(sealed) == 12 + len(content) + 16


def test_the_same_content_is_never_sealed_the_same_way():
    key = Key(SECRET)
    assert len({key.seal(b"same", about=b"") for _ in range(100)}) == 100


def test_every_changed_byte_is_noticed():
    key = Key(SECRET)
    sealed = key.seal(b"content", about=b"unit 7")
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(StateError, match="damaged"):
            key.reveal(bytes(changed), about=b"unit 7")
    for short in (b"", sealed[:5], sealed[:12], sealed[:-1]):
        with pytest.raises(StateError, match="damaged"):
            key.reveal(short, about=b"unit 7")


def test_what_was_sealed_about_one_thing_is_refused_about_another():
    key = Key(SECRET)
    with pytest.raises(StateError, match="another stream or unit"):
        key.reveal(key.seal(b"content", about=b"unit 7"), about=b"unit 8")
    with pytest.raises(StateError):
        Key(bytes(32)).reveal(key.seal(b"content", about=b"unit 7"), about=b"unit 7")


def test_a_code_depends_on_the_key_and_on_every_byte_of_the_content():
    key, content = Key(SECRET), b"series, unit and link"
    assert len(key.authenticate(content)) == 32
    assert key.authenticate(content) == Key(SECRET).authenticate(content)
    others = {Key(bytes(32)).authenticate(content), key.authenticate(content[:-1]), SECRET}
    assert key.authenticate(content) not in others


def test_a_key_is_known_by_its_id_and_shown_by_nothing_else():
    key = Key(SECRET)
    assert key.id == Key(SECRET).id != Key(bytes(32)).id
    assert repr(key) == f"<Key {key.id}>"
    assert key.id not in SECRET.hex()
    with pytest.raises(TypeError, match="not saved"):
        pickle.dumps(key)


@pytest.mark.parametrize(
    "content", [SECRET, SECRET.hex().encode(), SECRET.hex().upper().encode() + b"\n"]
)
def test_a_key_is_read_from_a_file(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    assert Key.from_file(path).id == Key(SECRET).id


def test_a_key_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(SECRET)
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="holds the key, and other users can read") as told:
        Key.from_file(path)
    assert SECRET.hex() not in str(told.value)


def test_a_key_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("PENSTOCK_TEST_KEY", SECRET.hex())
    assert Key.from_environment("PENSTOCK_TEST_KEY").id == Key(SECRET).id


@pytest.mark.parametrize(
    "content", [b"", b"short", SECRET + b"x", SECRET.hex().encode() + b"0", b"z" * 64, b"\xff" * 64]
)
def test_what_is_no_key_is_refused_and_not_shown(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(
        ConfigurationError, match="holds no key: it must be 32 bytes, as 64 hexadecimal digits"
    ) as caught:
        Key.from_file(path)
    assert len(content) < 5 or content.decode("latin-1") not in str(caught.value)


def test_a_key_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("PENSTOCK_TEST_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="PENSTOCK_TEST_KEY is not set"):
        Key.from_environment("PENSTOCK_TEST_KEY")
    monkeypatch.setenv("PENSTOCK_TEST_KEY", "é" * 64)
    with pytest.raises(ConfigurationError, match="PENSTOCK_TEST_KEY holds no key"):
        Key.from_environment("PENSTOCK_TEST_KEY")
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        Key.from_file(tmp_path / "none")
    with pytest.raises(ConfigurationError, match="key must be 32 bytes"):
        Key(b"x")
