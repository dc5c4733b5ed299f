from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
from dataclasses import replace

import pytest

from penstock.core.errors import ConfigurationError, LedgerError
from penstock.engine.chain import Head, head_message
from penstock.engine.signing import SIGNATURE_SIZE, PublicKey, SigningKey, write_key_pair

KEY = SigningKey(bytes(range(32)))
HEAD = KEY.signed("taps", Head(7, bytes(32)))


def test_a_signed_head_is_the_same_head_and_checks_with_the_public_key_alone():
    assert Head(7, bytes(32)) == HEAD
    assert len(HEAD.signature) == SIGNATURE_SIZE
    PublicKey(KEY.public.raw).check("taps", HEAD)


@pytest.mark.parametrize("place", range(SIGNATURE_SIZE))
def test_every_changed_byte_of_a_signature_is_noticed(place):
    changed = bytearray(HEAD.signature)
    changed[place] ^= 1
    with pytest.raises(LedgerError, match="the signature of unit 7"):
        KEY.public.check("taps", replace(HEAD, signature=bytes(changed)))


@pytest.mark.parametrize("content", [b"", bytes(96), HEAD.signature[:-1], HEAD.signature + b"\0"])
def test_a_signature_of_another_length_is_noticed(content):
    with pytest.raises(LedgerError, match="the signature of unit 7"):
        KEY.public.check("taps", replace(HEAD, signature=content))


@pytest.mark.parametrize(
    ("series", "head"),
    [
        ("taps", replace(HEAD, unit=8)),
        ("taps", replace(HEAD, link=bytes(31) + b"\1")),
        ("tap", HEAD),
        ("taps", replace(HEAD, signature=None)),
        ("taps", SigningKey(bytes(32)).signed("taps", HEAD)),
    ],
)
def test_a_signature_belongs_to_one_series_unit_link_and_key(series, head):
    with pytest.raises(LedgerError, match=f"series '{series}': the signature of unit {head.unit}"):
        KEY.public.check(series, head)


def test_the_name_and_the_unit_cannot_run_into_each_other():
    assert head_message("a", Head(1, bytes(32))) != head_message("a\0", Head(1, bytes(32)))


def test_a_key_pair_is_written_once_and_read_again(tmp_path):
    path = tmp_path / "signing"
    key = write_key_pair(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.from_pem(path.read_text()).public == key.public
    assert PublicKey.from_file(f"{path}.pub") == key.public != KEY.public
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="a key is never replaced"):
        write_key_pair(path)
    assert path.read_bytes() == before
    path.unlink()
    with pytest.raises(ConfigurationError, match=r"signing\.pub.*never replaced"):
        write_key_pair(path)
    assert not path.exists()


def test_a_key_is_secret_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        write_key_pair(tmp_path / "signing")
    finally:
        os.umask(before)
    assert (tmp_path / "signing").stat().st_mode & 0o777 == 0o600


def test_a_key_shows_its_fingerprint_and_nothing_else():
    assert repr(KEY) == f"<SigningKey {KEY.public.fingerprint}>"
    assert len(KEY.public.fingerprint) == 64
    with pytest.raises(TypeError, match="not saved"):
        pickle.dumps(KEY)


@pytest.mark.parametrize("content", ["", "secret-content", "-----BEGIN PRIVATE KEY-----"])
def test_what_is_no_key_is_refused_and_not_shown(tmp_path, content):
    with pytest.raises(ConfigurationError, match="Ed25519") as refused:
        SigningKey.from_pem(content)
    assert "secret-content" not in str(refused.value)
    (tmp_path / "key.pub").write_text(content)
    with pytest.raises(ConfigurationError, match="Ed25519"):
        PublicKey.from_file(tmp_path / "key.pub")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        PublicKey.from_file(tmp_path / "none.pub")


def test_the_secret_key_is_refused_where_the_public_one_belongs(tmp_path):
    (tmp_path / "signing").write_bytes(KEY.pem)
    with pytest.raises(ConfigurationError, match="holds no Ed25519 public key"):
        PublicKey.from_file(tmp_path / "signing")


def test_openssl_knows_the_keys_and_the_fingerprint(tmp_path):
    (tmp_path / "key.pub").write_bytes(KEY.public.pem)
    (tmp_path / "message").write_bytes(head_message("taps", HEAD))
    (tmp_path / "signature").write_bytes(HEAD.signature[32:])
    key = ["-pubin", "-in", "key.pub"]
    der = subprocess.run(
        ["openssl", "pkey", *key, "-outform", "DER", "-out", "key.der"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    if der.returncode:
        pytest.skip("there is no openssl that knows Ed25519")
    digest = hashlib.sha256((tmp_path / "key.der").read_bytes()).hexdigest()
    assert digest == KEY.public.fingerprint
    files = ["-inkey", "key.pub", "-in", "message", "-sigfile", "signature"]
    verified = subprocess.run(
        ["openssl", "pkeyutl", "-verify", "-pubin", "-rawin", *files],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stderr
