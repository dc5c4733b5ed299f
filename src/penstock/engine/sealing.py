"""Sealing: encryption of the secret part of a store with a key that readers lack."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path
from typing import NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.core.errors import ConfigurationError, StateError
from penstock.core.files import check_secret_file

SIZE = 32
"""The bytes of a key: AES-256."""

_NONCE = 12


class Key:
    """A key for AES-256-GCM. `id` tells keys apart and says nothing about them.

    >>> key = Key(bytes(32))
    >>> sealed = key.seal(b"threshold noise", about=b"unit 7")
    >>> key.reveal(sealed, about=b"unit 7")
    b'threshold noise'
    >>> key.reveal(sealed, about=b"unit 8")
    Traceback (most recent call last):
    penstock.core.errors.StateError: what was sealed is damaged, or of another stream or unit.
    """

    __slots__ = ("_chain", "_cipher", "id")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SIZE:
            raise ConfigurationError(f"key must be {SIZE} bytes.")
        self.id = hmac.digest(secret, b"penstock key id", hashlib.sha256)[:8].hex()
        self._chain = hmac.digest(secret, b"penstock chain key", hashlib.sha256)
        self._cipher = AESGCM(secret)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Key:
        """The key in a file that its owner alone can read: 32 bytes, or 64 hexadecimal digits."""
        check_secret_file(Path(path), "key")
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"the key file {str(path)!r} cannot be read: {error.strerror}."
            ) from None
        return cls(
            content if len(content) == SIZE else _digits(content, f"the key file {str(path)!r}")
        )

    @classmethod
    def from_environment(cls, name: str) -> Key:
        """The key in an environment variable: 64 hexadecimal digits."""
        value = os.environ.get(name)
        if value is None:
            raise ConfigurationError(
                f"the environment variable {name} is not set: it must hold the key."
            )
        return cls(_digits(value.encode(errors="replace"), f"the environment variable {name}"))

    def __repr__(self) -> str:
        return f"<Key {self.id}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not saved.")

    def seal(self, content: bytes | memoryview, *, about: bytes) -> bytes:
        """The content, readable with this key only and only as being `about` the same."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, content, about)

    def reveal(self, sealed: bytes | memoryview, *, about: bytes) -> bytes:
        """The content again; refused unless it was sealed with this key, about the same."""
        try:
            return self._cipher.decrypt(bytes(sealed[:_NONCE]), sealed[_NONCE:], about)
        except (InvalidTag, ValueError):
            raise StateError("what was sealed is damaged, or of another stream or unit.") from None

    def authenticate(self, content: bytes) -> bytes:
        """A code of 32 bytes that nobody can make without this key (HMAC-SHA-256).

        The key of this code is derived from the key, and is used for nothing else.
        """
        return hmac.digest(self._chain, content, hashlib.sha256)


def _digits(text: bytes, where: str) -> bytes:
    try:
        secret = bytes.fromhex(text.strip().decode("ascii"))
    except ValueError:
        secret = b""
    if len(secret) != SIZE:
        raise ConfigurationError(
            f"{where} holds no key: it must be {SIZE} bytes, as {2 * SIZE} hexadecimal digits."
        )
    return secret
