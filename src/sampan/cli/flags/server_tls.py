"""The flags for the TLS versions and cipher suites of a component's HTTPS port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sampan.cli.flags import parsers
from sampan.cli.flags.flag_table import Flag
from sampan.machinery.cli_errors import CliError
from sampan.machinery.pki.server_tls import DEFAULT_VERSION, VERSIONS, ServerTlsSettings, UnknownTlsName

MIN_VERSION, CIPHER_SUITES = "--tls-min-version", "--tls-cipher-suites"
FLAGS = (
    Flag(
        name=MIN_VERSION,
        help="Oldest TLS version that is accepted.",
        default=DEFAULT_VERSION,
        type=click.Choice(list(VERSIONS)),
    ),
    Flag(
        name=CIPHER_SUITES,
        help="Cipher suites of TLS 1.2 that are accepted, for example TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "
        "comma-separated; those of TLS 1.3 are always accepted. Default: the suites of OpenSSL.",
        default="",
        metavar="LIST",
    ),
)


def tls_settings(options: Mapping[str, Any]) -> ServerTlsSettings:
    suites = parsers.words(CIPHER_SUITES, options["tls_cipher_suites"])
    try:
        return ServerTlsSettings.parse(min_version=options["tls_min_version"], cipher_suites=suites)
    except UnknownTlsName as error:
        raise CliError(f"{CIPHER_SUITES}: {error}") from None
