"""`kubectl version`: the versions of the client and the server."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from sampan.api.kubernetes_version import GIT_VERSION, MAJOR, MINOR
from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, string_flag
from sampan.kubectl.errors import KubectlError

_KUSTOMIZE_VERSION = "v5.8.1"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionOptions:
    words: tuple[str, ...] = arguments()
    is_client_only: bool = bool_flag("--client", help="Print only the version of the client.")
    output: str = string_flag("-o", "--output", metavar="FORMAT", help="Output format: yaml or json.")


@KubectlCommand.define("version", VersionOptions)
def command(factory: Factory, options: VersionOptions) -> None:
    """Print the versions of the client and the server."""
    if options.words and not options.is_client_only:
        raise KubectlError(f"extra arguments: [{' '.join(options.words)}]")
    if options.output not in ("", "yaml", "json"):
        raise KubectlError("--output must be 'yaml' or 'json'")
    versions: dict[str, Any] = {"clientVersion": client_version(), "kustomizeVersion": _KUSTOMIZE_VERSION}
    error: click.ClickException | None = None
    if not options.is_client_only:
        try:
            versions["serverVersion"] = factory.session.get("/version")
        except click.ClickException as failure:
            error = failure
    _print(versions, options.output)
    if error is not None:
        raise error
    if "serverVersion" in versions and (warning := _skew(versions["serverVersion"])):
        if factory.options.warnings_as_errors:
            raise KubectlError(warning)
        click.echo(f"Warning: {warning}", err=True)


def client_version() -> dict[str, str]:
    from sampan import __version__

    machine = platform.machine()
    return {
        "buildDate": "1970-01-01T00:00:00Z",
        "compiler": sys.implementation.name,
        "gitCommit": f"sampan-{__version__}",
        "gitTreeState": "clean",
        "gitVersion": GIT_VERSION,
        "goVersion": f"python{platform.python_version()}",
        "major": MAJOR,
        "minor": MINOR,
        "platform": f"{sys.platform}/{_MACHINES.get(machine, machine)}",
    }


def _print(versions: Mapping[str, Any], output: str) -> None:
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(versions), indent=2).decode())
    elif output == "yaml":
        from sampan.kubectl.printers.objects import as_yaml

        click.echo(as_yaml(versions) + "\n")
    else:
        click.echo(f"Client Version: {versions['clientVersion']['gitVersion']}")
        click.echo(f"Kustomize Version: {versions['kustomizeVersion']}")
        if "serverVersion" in versions:
            click.echo(f"Server Version: {versions['serverVersion']['gitVersion']}")


def _skew(server: Mapping[str, Any]) -> str:
    """Return a warning if client and server are more than one minor version apart."""
    numbers = []
    for version in (client_version(), server):
        match = re.match(r"\d+", str(version.get("minor", "")))
        numbers.append((str(version.get("major", "")), int(match[0]) if match else 0))
    (client_major, client_minor), (server_major, server_minor) = numbers
    if client_major == server_major and abs(client_minor - server_minor) <= 1:
        return ""
    return (
        f"version difference between client ({client_major}.{client_minor}) and server ({server_major}.{server_minor}) "
        "exceeds the supported minor version skew of +/-1"
    )
