"""TLS of our own servers: the files that the configuration names, checked and read again."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from penstock.core.declaration import EndpointSetup, Option, Options
from penstock.core.errors import ConfigurationError
from penstock.core.files import check_secret_file

SERVER_TLS_OPTIONS: Final = (
    Option(
        name="tls_cert",
        type="path",
        example="tls/server.pem",
        help="the certificate of the server with its chain, in PEM (default: plain HTTP)",
    ),
    Option(
        name="tls_key",
        type="path",
        example="tls/server.key",
        help="the key of the certificate, in PEM and without a password",
    ),
    Option(
        name="tls_client_ca",
        type="path",
        example="tls/clients.pem",
        help="the authorities whose certificates clients must show (default: clients show none)",
    ),
)

log = logging.getLogger(__name__)


def check_server_tls(options: Options) -> None:
    """Refuse a certificate without a key, and the other way round."""
    given = {each.name for each in SERVER_TLS_OPTIONS if options.get(each.name) is not None}
    if given and not {"tls_cert", "tls_key"} <= given:
        raise ConfigurationError("TLS needs both tls_cert and tls_key: write both or neither.")


@dataclass(frozen=True, kw_only=True)
class ServerTls:
    """The files of a server that speaks TLS 1.2 or 1.3.

    Parameters
    ----------
    cert : Path
        The certificate of the server with its chain, in PEM.
    key : Path
        Its key, in PEM and without a password. Only its owner may read the file.
    client_ca : Path, optional
        The authorities whose certificates clients must show. Default: clients show none.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None

    @classmethod
    def of(cls, setup: EndpointSetup) -> Self | None:
        """The files that a table of the configuration names; None where it names none."""
        check_server_tls(setup.options)
        cert, key = setup.path("tls_cert"), setup.path("tls_key")
        if cert is None or key is None:
            return None
        return cls(cert=cert, key=key, client_ca=setup.path("tls_client_ca"))

    def context(self) -> ssl.SSLContext:
        """Read and check all files."""
        check_secret_file(self.key, "TLS key")
        for name, path in self._files():
            try:
                path.read_bytes()
            except OSError as error:
                raise ConfigurationError(
                    f"{name}: the file {str(path)!r} cannot be read: {error.strerror}.",
                    parameter=name,
                ) from None
        self._check_dates()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.cert, self.key, password=_no_password)
        except (ssl.SSLError, ValueError):
            raise ConfigurationError(
                f"tls_key: the file {str(self.key)!r} has no key in PEM without a password that "
                f"belongs to the certificate in {str(self.cert)!r}.",
                parameter="tls_key",
            ) from None
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except ssl.SSLError:
                raise ConfigurationError(
                    f"tls_client_ca: the file {str(self.client_ca)!r} has no certificate in PEM.",
                    parameter="tls_client_ca",
                ) from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def versions(self) -> tuple[object, ...]:
        """What changes whenever one of the files is replaced or written."""
        found: list[object] = []
        for _, path in self._files():
            try:
                now = path.stat()
            except OSError:
                found.append(None)
            else:
                found.append((now.st_ino, now.st_mtime_ns, now.st_size))
        return tuple(found)

    def _files(self) -> Iterator[tuple[str, Path]]:
        yield "tls_cert", self.cert
        yield "tls_key", self.key
        if self.client_ca is not None:
            yield "tls_client_ca", self.client_ca

    def _check_dates(self) -> None:
        from cryptography import x509

        try:
            certificate = x509.load_pem_x509_certificates(self.cert.read_bytes())[0]
        except ValueError:
            raise ConfigurationError(
                f"tls_cert: the file {str(self.cert)!r} has no certificate in PEM.",
                parameter="tls_cert",
            ) from None
        first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if not first <= datetime.now(UTC) <= last:
            raise ConfigurationError(
                f"tls_cert: the certificate in {str(self.cert)!r} is valid from {first:%Y-%m-%d} "
                f"to {last:%Y-%m-%d} only. Renew it, or set the clock right.",
                parameter="tls_cert",
            )


class ReloadedTls:
    """The newest usable content of the files of a `ServerTls`."""

    def __init__(self, files: ServerTls, name: str) -> None:
        self._files, self._name = files, name
        self._versions = files.versions()
        self.context = files.context()

    def refresh(self) -> None:
        """Read the files if they have changed. While they cannot be used, the old ones stay."""
        versions = self._files.versions()
        if versions == self._versions:
            return
        self._versions = versions
        try:
            self.context = self._files.context()
        except ConfigurationError as error:
            log.warning("%s: %s The certificate that was read before stays.", self._name, error)


def _no_password() -> str:
    """OpenSSL would ask the terminal for a password if nothing else answered."""
    return ""
