"""The flags of kube-apiserver and `sampan up` for service account tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sampan.apiserver.authn.jwt_keys import KeyFileError, read_keys
from sampan.apiserver.config.server_config import ISSUER
from sampan.cli.flags import parsers
from sampan.cli.flags.flag_table import Flag
from sampan.machinery.cli_errors import CliError

FLAGS = (
    Flag(
        name="--service-account-issuer",
        help="Issuer of service account tokens. If given several times, the first signs and the others are accepted.",
        default=[ISSUER],
        metavar="URL",
        is_repeatable=True,
    ),
    Flag(
        name="--service-account-jwks-uri",
        help="URL of the keys with which others verify service account tokens; part of OpenID Connect discovery.",
        default="",
        metavar="URL",
        target="service_account_jwks_uri",
    ),
    Flag(
        name="--service-account-max-token-expiration",
        help="Longest validity of a service account token; 0 sets no limit.",
        default="0s",
        metavar="T",
    ),
    Flag(name="--service-account-signing-key-file", help="Private key that signs service account tokens.", metavar="F"),
    Flag(
        name="--service-account-key-file",
        help="Key that verifies service account tokens; can be given several times.",
        metavar="F",
        is_repeatable=True,
    ),
    Flag(
        name="--api-audiences",
        help="Audiences accepted in service account tokens. Default: the issuer.",
        default="",
        metavar="A,…",
        target="api_audiences",
        parse=parsers.words,
    ),
    Flag(
        name="--service-account-extend-token-expiration",
        help="Extend the validity of tokens injected into pods to one year, for clients that do not reload them.",
        default=True,
        is_switch=True,
        target="extends_account_tokens",
    ),
)


def service_accounts(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a ServerConfig for service account tokens that need more than the value of one flag."""
    issuer, *others = options["service_account_issuer"]
    return {
        "service_account_issuer": issuer,
        "other_service_account_issuers": tuple(others),
        "service_account_max_token_s": _max_token_s(options["service_account_max_token_expiration"]),
        "service_account_key": _signing_key(options["service_account_signing_key_file"]),
        "service_account_public_keys": _key_files(options["service_account_key_file"]),
    }


def _max_token_s(text: str) -> float:
    flag = "--service-account-max-token-expiration"
    seconds = parsers.duration_s(flag, text)
    if seconds and not 3600 <= seconds <= 2**32:
        raise CliError(f"{flag}: must be between 1 hour and 2^32 seconds")
    return seconds


def _signing_key(path: str | None) -> Path | None:
    flag = "--service-account-signing-key-file"
    key_file = parsers.file(flag, path)
    if key_file is None:
        return None
    pem = key_file.read_bytes()
    try:
        read_keys([pem])
    except KeyFileError as error:
        raise CliError(f"{flag}: {path}: {error}") from None
    if b"PRIVATE KEY" not in pem:
        raise CliError(f"{flag}: {path} is not a private key")
    return key_file


def _key_files(paths: Sequence[str]) -> tuple[Path, ...]:
    """Check the key files by reading them once."""
    flag = "--service-account-key-file"
    files = tuple(file for path in paths if (file := parsers.file(flag, path)) is not None)
    for path in files:
        try:
            read_keys([path.read_bytes()])
        except KeyFileError as error:
            raise CliError(f"{flag}: {path}: {error}") from None
    return files
