"""Options of connections to a broker, for every source and sink that has one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from penstock.core.declaration import EndpointSetup, Option, Options
from penstock.core.errors import ConfigurationError

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

LOGIN_OPTIONS: Final = (
    Option(
        name="username",
        type="variable",
        example="BROKER_USER",
        help="the environment variable with the user name",
    ),
    Option(
        name="password",
        type="variable",
        example="BROKER_PASSWORD",
        help="the environment variable with the password",
    ),
)

TLS_OPTIONS: Final = (
    Option(
        name="tls",
        type="flag",
        example=True,
        help="whether the connection is encrypted (default: true with a user name, else false)",
    ),
    Option(
        name="authority",
        type="path",
        example="broker.pem",
        help="a file with the certificates to trust (default: the system's)",
    ),
)

KAFKA_OPTIONS: Final = (
    Option(
        name="servers",
        type="address",
        several=True,
        required=True,
        example="localhost:9092",
        help="the brokers",
    ),
    Option(name="topic", required=True, example="taps", help="the topic"),
    *LOGIN_OPTIONS,
    Option(
        name="mechanism",
        choices=SASL_MECHANISMS,
        default="PLAIN",
        help="how to log in (SASL)",
    ),
    *TLS_OPTIONS,
)


def check_login(options: Options) -> None:
    """Refuse a user name without a password, and the other way round."""
    if ("username_env" in options) != ("password_env" in options):
        raise ConfigurationError(
            "username_env and password_env belong together: write both or neither."
        )


def connection(setup: EndpointSetup) -> dict[str, Any]:
    """Login and encryption, as our clients take them."""
    authority = setup.path("authority")
    return {
        "username": setup.secret("username"),
        "password": setup.secret("password"),
        "tls": setup.options.get("tls"),
        "authority": None if authority is None else str(authority),
    }


def check_both(username: str | None, password: str | None, *, kind: str) -> None:
    """Refuse a user name without a password, and the other way round, in Python."""
    if (username is None) != (password is None):
        raise ConfigurationError(
            f"{kind}: username and password belong together: give both or neither."
        )


def kafka_settings(
    servers: str | Sequence[str],
    username: str | None,
    password: str | None,
    mechanism: str,
    tls: bool | None,
    authority: str | os.PathLike[str] | None,
) -> dict[str, Any]:
    """Settings of librdkafka for every client of ours. It writes nothing to standard error."""
    check_both(username, password, kind="kafka")
    encrypted = username is not None if tls is None else tls
    settings: dict[str, Any] = {
        "bootstrap.servers": servers if isinstance(servers, str) else ",".join(servers),
        "client.id": "penstock",
        "security.protocol": ("" if username is None else "SASL_")
        + ("SSL" if encrypted else "PLAINTEXT"),
        "socket.keepalive.enable": True,
        "reconnect.backoff.max.ms": 2000,
        "log_level": 0,
    }
    if username is not None:
        settings |= {
            "sasl.mechanisms": mechanism,
            "sasl.username": username,
            "sasl.password": password,
        }
    if authority is not None:
        settings["ssl.ca.location"] = str(authority)
    return settings
