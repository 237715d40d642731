"""The flags of `sampan up` that a cluster remembers, so that the next start without flags gives the same cluster.

The first start of a cluster decides its shape: nodes, runtime, components, port and CIDRs. These flags are stored in
its data directory when the start succeeds. A later start uses the stored flags that its command line does not set, and
stores the ones that it sets.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from sampan.cli.flags import parsers
from sampan.host.linux.network_namespace import NetworkNamespace
from sampan.machinery.cli_errors import CliError
from sampan.machinery.pki.private_files import write_private

log = logging.getLogger(__name__)

DEFAULT_PORT = 6443
_LAST_PORT = DEFAULT_PORT + 200
SECURE_PORT = "secure_port"
_CHOSEN_PORT = "chosen_port"
"""The port of a cluster whose command line gave none; the next start prefers it."""
REMEMBERED = frozenset(
    {
        "bind_address",
        "cluster_cidr",
        "cluster_domain",
        "components",
        "controllers",
        "etcd_servers",
        "ingress",
        "kubernetes_version",
        "network_policy",
        "node_network",
        "nodes",
        "pod_network",
        "runtime",
        SECURE_PORT,
        "service_cluster_ip_range",
        "service_node_port_range",
        "store",
    }
)
"""The parameters of `sampan up` that are remembered. Paths are excluded, because they may be relative to another
working directory."""


class RememberedFlags:
    def __init__(self, path: Path, network: NetworkNamespace) -> None:
        """`network` is the network namespace in which the port of the cluster must be free."""
        self._path, self._network = path, network
        self._values: dict[str, Any] = {}
        self.recalled = ""
        """The flags that were taken over from an earlier start, as text of a command line."""

    @property
    def has_chosen_port(self) -> bool:
        """Whether neither the command line nor an earlier one gave the port."""
        return _CHOSEN_PORT in self._values

    def complete(self, options: Mapping[str, Any], *, forgets: bool) -> dict[str, Any]:
        """Return the options, with remembered values for those that the command line does not set. With `forgets`,
        ignore the remembered flags."""
        context = click.get_current_context()
        explicit = {name for name in options if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
        earlier = {} if forgets else self._read()
        recalled = {name: value for name, value in earlier.items() if name in REMEMBERED & set(options) - explicit}
        self._values = recalled | {name: options[name] for name in sorted(REMEMBERED & explicit)}
        completed = {**options, **recalled}
        if SECURE_PORT not in self._values:
            ports = [earlier[_CHOSEN_PORT]] if isinstance(earlier.get(_CHOSEN_PORT), int) else []
            address = parsers.address("--bind-address", completed["bind_address"] or "127.0.0.1")
            port = free_port(address, [*ports, *range(DEFAULT_PORT, _LAST_PORT)], self._network)
            completed[SECURE_PORT] = self._values[_CHOSEN_PORT] = port
        self.recalled = _command_line(context, recalled)
        return completed

    def save(self) -> None:
        """Write the flags to the data directory. A failure, for example because the disk is full, is logged and does
        not stop the cluster."""
        try:
            write_private(self._path, msgspec.json.encode(self._values))
        except OSError as error:
            log.warning("cannot record the flags of the cluster in %s: %s", self._path, error.strerror)

    def _read(self) -> dict[str, Any]:
        return read_flags(self._path)


def read_flags(path: Path) -> dict[str, Any]:
    """Return the flags of the last start of a cluster; empty if there was none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise CliError(f"cannot read the flags of the last start: {path}: {error}; remove the file") from None


def _command_line(context: click.Context, values: Mapping[str, Any]) -> str:
    parameters = {parameter.name: parameter for parameter in context.command.params}
    return " ".join(_flag_text(parameters[name], value) for name, value in sorted(values.items()))


def _flag_text(parameter: click.Parameter, value: Any) -> str:
    name = parameter.opts[0]
    if isinstance(value, bool):
        return name if value else (*parameter.secondary_opts, f"{name}=false")[0]
    return f"{name} {','.join(map(str, value)) if isinstance(value, list | tuple) else value}"


def free_port(address: str, candidates: Sequence[int], network: NetworkNamespace) -> int:
    """Return the first port on which nothing listens, so that a second cluster needs no flag. If all are in use, or the
    address cannot be used, return the first: starting then reports why."""
    for port in candidates:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with network.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                break
            return port
    return candidates[0]
