"""The files of a server that speaks TLS: what is wrong with them is said before it listens."""

from __future__ import annotations

import logging
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import serialization

from penstock.core import web_server
from penstock.core.connections import Phase
from penstock.core.declaration import EndpointSetup
from penstock.core.errors import ConfigurationError
from penstock.core.server_tls import ReloadedTls, ServerTls

from tests.certificates import Authority
from tests.core.test_web_server import NOW, attacked

DAY = timedelta(days=1)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "tls")


@pytest.fixture
def other(tmp_path):
    return Authority(tmp_path / "other")


def test_the_context_is_of_tls_1_2_or_later(authority, other):
    context = authority.server().context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE
    assert authority.server(clients=other).context().verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize("name", ["cert", "key", "client_ca"])
def test_a_missing_file_is_named(authority, other, name):
    files = authority.server(clients=other)
    getattr(files, name).unlink()
    with pytest.raises(ConfigurationError, match=rf"tls_{name}: .*cannot be read: No such file"):
        files.context()


@pytest.mark.parametrize("name", ["cert", "key", "client_ca"])
def test_a_file_without_pem_is_named(authority, other, name):
    files = authority.server(clients=other)
    getattr(files, name).write_text("s3cret")
    with pytest.raises(ConfigurationError, match=rf"tls_{name}: .*in PEM") as caught:
        files.context()
    assert "s3cret" not in str(caught.value)


def test_a_key_that_others_can_read_is_refused(authority):
    files = authority.server()
    files.key.chmod(0o644)
    with pytest.raises(ConfigurationError, match=r"TLS key.*0644"):
        files.context()


def test_a_key_of_another_certificate_is_refused(authority):
    cert, _ = authority.issue("one")
    _, key = authority.issue("two")
    with pytest.raises(ConfigurationError, match=r"tls_key: .*belongs to the certificate"):
        ServerTls(cert=cert, key=key).context()


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(authority):
    files = authority.server()
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    with pytest.raises(ConfigurationError, match="without a password"):
        files.context()


@pytest.mark.parametrize(("first", "last"), [(-9, -1), (1, 9)])
def test_a_certificate_that_is_not_valid_now_is_refused(authority, first, last):
    now = datetime.now(UTC)
    files = authority.server(not_before=now + first * DAY, not_after=now + last * DAY)
    with pytest.raises(ConfigurationError, match=r"is valid from .* only"):
        files.context()


def test_a_certificate_and_its_key_belong_together(tmp_path):
    for given in ({"tls_cert": "a"}, {"tls_key": "b"}, {"tls_client_ca": "c"}):
        with pytest.raises(ConfigurationError, match="needs both tls_cert and tls_key"):
            ServerTls.of(EndpointSetup(options=given, folder=tmp_path))
    assert ServerTls.of(EndpointSetup(options={}, folder=tmp_path)) is None
    both = {"tls_cert": "a", "tls_key": "b"}
    assert ServerTls.of(EndpointSetup(options=both, folder=tmp_path)) == ServerTls(
        cert=tmp_path / "a", key=tmp_path / "b"
    )


def test_files_that_change_are_read_again_and_bad_ones_are_passed_over(authority, caplog):
    reloaded = ReloadedTls(authority.server(), "test")
    first = reloaded.context
    reloaded.refresh()
    assert reloaded.context is first
    authority.issue("other")
    (authority.folder / "other.key").replace(authority.folder / "server.key")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            reloaded.refresh()
    assert reloaded.context is first
    assert len(caplog.records) == 1
    assert "The certificate that was read before stays." in caplog.text
    (authority.folder / "other.pem").replace(authority.folder / "server.pem")
    reloaded.refresh()
    assert reloaded.context is not first


# -- connections -----------------------------------------------------------------------------------


def serial(sender):
    certificate = sender.writer.get_extra_info("ssl_object").getpeercert()
    return certificate["serialNumber"]


def test_requests_over_tls_are_answered_and_limited(authority):
    async def scenario(here):
        sender = await here.sender(ssl=authority.client())
        assert [await sender.asks(NOW) for _ in range(3)] == [200] * 3
        sender.send(b"GET /n")
        await here.in_phase(Phase.OPENING, 1)
        await here.advance(11)
        assert await sender.status() == 408
        assert await sender.closed()

    attacked(scenario, tls=authority.server())


def test_a_request_in_the_last_packet_of_a_handshake_is_answered(authority):
    async def scenario(here):
        sender = await here.sender()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = authority.client().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        sender.send(outgoing.read())
        while client.version() is None or not outgoing.pending:
            assert incoming.write(await sender.reader.read(2**16))
            with suppress(ssl.SSLWantReadError):
                client.do_handshake()
        client.write(NOW)
        sender.send(outgoing.read())
        answer = b""
        while not answer.endswith(b"xx"):
            assert incoming.write(await sender.reader.read(2**16))
            with suppress(ssl.SSLWantReadError):
                while True:
                    answer += client.read(2**16)
        assert answer.startswith(b"HTTP/1.1 200")

    attacked(scenario, tls=authority.server())


def test_a_peer_that_never_shakes_hands_is_closed_and_makes_room(authority):
    async def scenario(here):
        silent, half, third = [await here.sender() for _ in range(3)]
        await here.in_phase(Phase.OPENING, 3)
        half.send(b"\x16\x03\x01\x02\x00\x01")
        assert await (await here.sender(ssl=authority.client())).asks(NOW) == 200
        assert await silent.closed()
        await here.advance(11)
        assert await half.closed()
        assert await third.closed()
        assert here.counts == {"displaced": 1, "slow": 2}

    attacked(scenario, tls=authority.server(), per_peer=3)


def test_plain_http_to_a_port_with_tls_is_closed_and_counted(authority):
    async def scenario(here):
        assert await (await here.sender()).asks(NOW) is None
        assert here.counts == {"malformed": 1}

    attacked(scenario, tls=authority.server())


def test_a_client_must_show_a_certificate_of_the_named_authority(authority, other):
    async def scenario(here):
        for shows, status in ((other, 200), (None, None), (authority, None)):
            try:
                sender = await here.sender(ssl=authority.client(shows))
                assert await sender.asks(NOW) == status
            except ssl.SSLError:
                assert status is None
        with pytest.raises(ssl.SSLError):
            await here.sender(ssl=other.client(other))
        await here.until(lambda: here.counts.get("malformed", 0) >= 2)

    attacked(scenario, tls=authority.server(clients=other))


def test_a_server_uses_a_new_certificate_without_a_restart(authority):
    async def scenario(here):
        first = await here.sender(ssl=authority.client())
        authority.issue()
        await here.advance(web_server.TLS_REFRESH_SECONDS + 2)
        second = await here.sender(ssl=authority.client())
        assert serial(first) != serial(second)
        assert await first.asks(NOW) == await second.asks(NOW) == 200

    attacked(scenario, tls=authority.server(), idle=75, head=30)
