"""Real certificates, made for a test, in files as a configuration names them."""

from __future__ import annotations

import ssl

import trustme

from penstock.core.server_tls import ServerTls


class Authority:
    """An authority of a test, the files of its server and the contexts of its clients."""

    def __init__(self, folder):
        self.folder, self.ca = folder, trustme.CA()
        folder.mkdir(exist_ok=True)
        self.ca.cert_pem.write_to_path(folder / "ca.pem")

    def issue(self, name="server", **dates):
        """Write a certificate for this machine and its key; return both paths."""
        issued = self.ca.issue_cert("127.0.0.1", "localhost", **dates)
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
        key.unlink(missing_ok=True)
        key.touch(mode=0o600)
        key.write_bytes(issued.private_key_pem.bytes())
        return cert, key

    def server(self, *, clients=None, **dates):
        """The files of a server; with `clients`, it asks for certificates of that authority."""
        cert, key = self.issue(**dates)
        return ServerTls(
            cert=cert, key=key, client_ca=None if clients is None else clients.folder / "ca.pem"
        )

    def client(self, shows=None):
        """The context of a client that trusts this authority; `shows` issues its certificate."""
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        if shows is not None:
            shows.ca.issue_cert("client@example.org").configure_cert(context)
        return context
