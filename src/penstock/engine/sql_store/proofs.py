"""Keyed links and signatures: made for each new unit, and checked before a publisher goes on."""

from __future__ import annotations

from penstock.core.errors import StateError
from penstock.engine.chain import Head, head_message
from penstock.engine.sealing import Key
from penstock.engine.signing import SigningKey, named_key
from penstock.engine.sql_store.verification import check_mac


class UnitProofs:
    """What shows that a unit is of the publisher who has the keys.

    The keyed link is a code over the link after the unit. It shows this to the publisher alone,
    who has the key of the state. The signature shows it to everybody who has the public key.
    """

    def __init__(self, key: Key | None, signing_key: SigningKey | None) -> None:
        self._key = key
        self._signing_key = signing_key

    def of(self, series: str, head: Head) -> tuple[bytes | None, bytes | None]:
        """The keyed link and the signature of a unit, each None where there is no key."""
        mac = self._key.authenticate(head_message(series, head)) if self._key else None
        signed = self._signing_key.signed(series, head) if self._signing_key else head
        return mac, signed.signature

    def check(self, series: str, head: Head, mac: bytes | None) -> None:
        """Refuse to go on from a unit that was not made with the same keys.

        A chain that is neither keyed nor signed yet is accepted.
        """
        if mac is not None:
            if self._key is None:
                raise StateError(
                    f"unit {head.unit} of {series!r} has a keyed link: give the key of the state. "
                    "Nothing was written."
                )
            check_mac(series, head, mac, self._key)
        if head.signature is None:
            return
        if self._signing_key is None:
            raise StateError(
                f"unit {head.unit} of {series!r} is signed with key "
                f"{named_key(series, head).fingerprint}, and there is no signing key: name it as "
                "signing_key_file or signing_key_env in [store]. Nothing was written."
            )
        self._signing_key.public.check(series, head)
