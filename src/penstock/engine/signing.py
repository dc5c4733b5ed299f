"""Signed heads: with the public key alone, anybody can tell a rewritten history.

The hash chain has no secret, so that everybody can recompute it. Whoever can write to a store could
therefore replace the whole chain by another one. A signature over the link after a unit cannot be
made without the signing key, and the link stands for everything up to that unit.

Keys and signatures are Ed25519 (RFC 8032), in the PEM files that OpenSSL reads and writes.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import NoReturn

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from penstock.core.errors import ConfigurationError, LedgerError
from penstock.engine.chain import Head, head_message

KEY_SIZE = 32
SIGNATURE_SIZE = KEY_SIZE + 64
"""The bytes of a stored signature: the public key, then the signature of RFC 8032."""


class PublicKey:
    """The public half of a signing key, for readers.

    Parameters
    ----------
    raw : bytes
        The 32 bytes of an Ed25519 public key.

    >>> key = SigningKey(bytes(32))
    >>> head = key.signed("taps", Head(3, bytes(32)))
    >>> key.public.check("taps", head)
    >>> key.public.check("buses", head)
    Traceback (most recent call last):
    penstock.core.errors.LedgerError: series 'buses': the signature of unit 3 is wrong.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._key = Ed25519PublicKey.from_public_bytes(raw)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> PublicKey:
        """The public key in a PEM file."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"the public key {str(path)!r} cannot be read: {error.strerror}."
            ) from None
        try:
            key = load_pem_public_key(content)
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise ConfigurationError(
                f"{str(path)!r} holds no Ed25519 public key in PEM: give the file NAME.pub that "
                "penstock ledger keygen NAME has written."
            )
        return cls(key.public_bytes_raw())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and other.raw == self.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"<PublicKey {self.fingerprint}>"

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the key as DER, in 64 hexadecimal digits.

        `openssl pkey -pubin -in NAME.pub -outform DER | sha256sum` prints the same.
        """
        der = self._key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(der).hexdigest()

    @property
    def pem(self) -> bytes:
        """The content of a PEM file."""
        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def check(self, series: str, head: Head) -> None:
        """Refuse a head of a series that was not signed with this key, by a `LedgerError`."""
        where = f"series {series!r}: the signature of unit {head.unit}"
        if head.signature is None:
            raise LedgerError(f"{where} is missing.")
        if not isinstance(head.signature, bytes):  # SQLite keeps text in a column of bytes, too
            raise LedgerError(f"{where} is damaged.")
        key, value = head.signature[:KEY_SIZE], head.signature[KEY_SIZE:]
        if key != self.raw:
            other = named_key(series, head).fingerprint
            raise LedgerError(f"{where} was made with another key, {other}.")
        try:
            self._key.verify(value, head_message(series, head))
        except InvalidSignature:
            raise LedgerError(f"{where} is wrong.") from None


def named_key(series: str, head: Head) -> PublicKey:
    """The public key that a signature names. Whoever writes to the store can name another one."""
    try:
        return PublicKey((head.signature or b"")[:KEY_SIZE])
    except (ValueError, TypeError):
        raise LedgerError(
            f"series {series!r}: the signature of unit {head.unit} is damaged."
        ) from None


class SigningKey:
    """The secret key that a publisher signs heads with.

    Parameters
    ----------
    seed : bytes
        The 32 bytes of an Ed25519 private key.

    >>> SigningKey(bytes(32))
    <SigningKey 339e2ff917630507b6a423b5ce084e285d1fa65d93b3e27a6195d3bbebc9ae23>
    """

    __slots__ = ("_key", "public")

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = PublicKey(self._key.public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> SigningKey:
        """A new key from the system's randomness."""
        return cls(secrets.token_bytes(KEY_SIZE))

    @classmethod
    def from_pem(cls, text: str) -> SigningKey:
        """The key in the text of a PEM file without a password."""
        try:
            key = load_pem_private_key(text.encode(errors="replace"), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigurationError(
                "the signing key must be an Ed25519 private key in PEM without a password, as "
                "penstock ledger keygen writes it."
            )
        return cls(key.private_bytes_raw())

    def __repr__(self) -> str:
        return f"<SigningKey {self.public.fingerprint}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not saved.")

    @property
    def pem(self) -> bytes:
        """The content of a PEM file: a secret."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def signed(self, series: str, head: Head) -> Head:
        """The head of a series with a signature."""
        value = self._key.sign(head_message(series, head))
        return Head(head.unit, head.link, self.public.raw + value)


def write_key_pair(path: str | os.PathLike[str]) -> SigningKey:
    """Make a signing key; write it to a new file of mode 0600, and the public key to PATH.pub.

    A file that is there already is a `ConfigurationError`, and nothing is written.
    """
    secret, public = Path(path), Path(f"{os.fspath(path)}.pub")
    for each in (secret, public):
        if each.exists():
            raise ConfigurationError(
                f"{str(each)!r} exists already, and a key is never replaced: choose another name. "
                "Nothing was written."
            )
    key = SigningKey.generate()
    for each, content, mode in ((secret, key.pem, 0o600), (public, key.public.pem, 0o644)):
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        with os.fdopen(os.open(each, flags, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    return key
