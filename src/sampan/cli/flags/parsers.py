"""Parsers for flag values, with errors that name the flag."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sampan.api.values import durations
from sampan.apiserver.authn.static_tokens import TokenFileError, read_user_file
from sampan.apiserver.request.call import UserInfo
from sampan.machinery.cli_errors import CliError

if TYPE_CHECKING:
    from sampan.apiserver.audit.policy import AuditPolicy
    from sampan.machinery.client.access import Access
    from sampan.storage.encryption import EncryptionRules


class Int64(click.types.IntParamType):
    """A flag with a 64-bit integer. Unlike that of click.IntRange, its help does not show the limits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not -(2**63) <= number < 2**63:
            self.fail(f"{value!r} is not a 64-bit integer.", param, ctx)
        return number


def words(flag: str, text: str) -> list[str]:
    """Split a comma-separated list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def names(flag: str, text: str, choices: tuple[str, ...]) -> tuple[str, ...]:
    """Parse a comma-separated list of known names."""
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    for word in words:
        if word not in choices:
            raise CliError(f"{flag}: there is no {word!r}; supported: {', '.join(choices)}")
    return words


def controllers(flag: str, text: str, *, has_cloud: bool = True) -> tuple[str, ...]:
    """Parse a list of controllers as in --controllers. Raise CliError for an unknown one. Without `has_cloud`, those of
    a cloud-controller-manager are unknown."""
    from sampan.controllers.controller_table import CONTROLLERS, KUBE_CONTROLLERS
    from sampan.controllers.manager import UnknownController, select_controllers

    words = tuple(word.strip() for word in text.split(",") if word.strip())
    try:
        select_controllers(words, CONTROLLERS if has_cloud else KUBE_CONTROLLERS)
    except UnknownController as error:
        raise CliError(f"{flag}: {error}") from None
    return words


def switches(flag: str, text: str) -> dict[str, bool]:
    """Parse `KEY=true,KEY=false`."""
    values: dict[str, bool] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = pair.partition("=")
        if not equals or value.lower() not in ("true", "false"):
            raise CliError(f"{flag}: want NAME=true or NAME=false, not {pair!r}")
        values[key] = value.lower() == "true"
    return values


def address(flag: str, text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise CliError(f"{flag}: {text!r} is not an IP address") from None


def network(flag: str, text: str) -> str:
    """Validate the service CIDR, or one CIDR per IP family."""
    from sampan.apiserver.registry.allocation.ranges import ServiceRanges

    try:
        ServiceRanges.parse(text)
    except ValueError as error:
        raise CliError(f"{flag}: {error}") from None
    return text


def port(flag: str, number: int) -> int:
    if not 0 <= number < 65536:
        raise CliError(f"{flag}: {number} is not a port")
    return number


def port_range(flag: str, text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    if not (low.isdigit() and high.isdigit() and 0 < int(low) <= int(high) < 65536):
        raise CliError(f"{flag}: want two ports as in 30000-32767, not {text!r}")
    return int(low), int(high)


def duration_s(flag: str, text: str) -> float:
    try:
        return durations.parse_duration(text) / 1e9
    except ValueError as error:
        raise CliError(f"{flag}: {error}") from None


def positive_s(flag: str, text: str) -> float:
    seconds = duration_s(flag, text)
    if seconds <= 0:
        raise CliError(f"{flag}: must be greater than 0")
    return seconds


def check_not_negative(flag: str, number: int) -> int:
    if number < 0:
        raise CliError(f"{flag}: cannot be negative")
    return number


def file_text(flag: str, path: str | None) -> str:
    """Read a text file; empty if there is no path."""
    source = file(flag, path)
    try:
        return source.read_text() if source is not None else ""
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{flag}: cannot read {path}: {error}") from None


def file_name(flag: str, path: str | None) -> str:
    """Check that a file can be read. Return its path; empty if there is none."""
    source = file(flag, path)
    return str(source) if source is not None else ""


def tokens(flag: str, path: str | None) -> dict[str, UserInfo]:
    return dict(users(flag, path))


def users(flag: str, path: str | None) -> list[tuple[str, UserInfo]]:
    """Read a file with passwords or tokens and users."""
    if not path:
        return []
    try:
        return read_user_file(Path(path))
    except OSError as error:
        raise CliError(f"{flag}: cannot read {path}: {error.strerror}") from None
    except TokenFileError as error:
        raise CliError(f"{flag}: {error}") from None


def access(flag: str, path: str) -> Access:
    """Read a kubeconfig file that says how a service is reached."""
    from sampan.machinery.client import kubeconfig

    try:
        return kubeconfig.load(Path(path))
    except (kubeconfig.KubeconfigError, OSError) as error:
        raise CliError(f"{flag}: {error}") from None


def encryption(flag: str, path: str | None) -> EncryptionRules | None:
    if not path:
        return None
    from sampan.machinery.config_file import ConfigFileError
    from sampan.storage.encryption import read_encryption_config

    try:
        return read_encryption_config(Path(path))
    except ConfigFileError as error:
        raise CliError(f"{flag}: {path}: {error}") from None


def audit_policy(flag: str, path: str | None) -> AuditPolicy | None:
    if not path:
        return None
    from sampan.apiserver.audit.policy import read_policy
    from sampan.machinery.config_file import ConfigFileError

    try:
        return read_policy(Path(path))
    except ConfigFileError as error:
        raise CliError(f"{flag}: {path}: {error}") from None


def check_writable(flag: str, path: str) -> str:
    """Check that a log file can be opened for writing; "-" is standard output."""
    from sampan.apiserver.audit.log import AuditLogFile
    from sampan.host.clock import RealClock

    if path != "-":
        output_file(flag, path)
    try:
        AuditLogFile(path, clock=RealClock()).check()
    except OSError as error:
        raise CliError(f"{flag}: cannot write to {path}: {error.strerror}") from None
    return path


def output_file(flag: str, path: str) -> Path:
    """Check that a file can be written in an existing directory. A missing directory is an error, as it is probably a
    typing mistake."""
    parent = Path(path).absolute().parent
    if not os.path.isdir(parent):
        raise CliError(f"{flag}: {path}: there is no directory {parent}")
    if os.path.isdir(path):
        raise CliError(f"{flag}: {path} is a directory")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise CliError(f"{flag}: {path}: no permission to write in {parent}")
    return Path(path)


def authority(flag: str, path: str | None) -> Path | None:
    """Check that a file contains CA certificates in PEM format."""
    certificates = file(flag, path)
    if certificates is not None:
        import ssl

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(certificates)
        except (ssl.SSLError, OSError):
            raise CliError(f"{flag}: {path} contains no certificate in PEM format") from None
    return certificates


def key_pair(
    certificate_flag: str, certificate: str | None, key_flag: str, key: str | None
) -> tuple[Path, Path] | None:
    """Check a certificate and its private key in PEM format. Return None if neither is given."""
    files = file(certificate_flag, certificate), file(key_flag, key)
    if files[0] is None and files[1] is None:
        return None
    if files[0] is None or files[1] is None:
        raise CliError(f"{certificate_flag} and {key_flag}: give both or neither")
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files[0], files[1], password="")
    except (ssl.SSLError, OSError):
        raise CliError(
            f"{certificate_flag} and {key_flag}: {certificate} and {key} are not a certificate and its key in PEM"
        ) from None
    return files[0], files[1]


def file(flag: str, path: str | None) -> Path | None:
    """Check that a file can be read."""
    if not path:
        return None
    if not os.access(path, os.R_OK):
        raise CliError(f"{flag}: cannot read {path}")
    if os.path.isdir(path):
        raise CliError(f"{flag}: cannot read {path}: Is a directory")
    return Path(path)
