"""The `kube-apiserver` of `sampan envtest`: `sampan kube-apiserver` on the store of the `etcd` beside it.

All flags of kube-apiserver v1.36 are accepted, as test suites set some for good measure. Those without effect here are
named on standard error.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from sampan.api.feature_gates import IMPLEMENTED_GATES
from sampan.cli.components.kube_apiserver import ControlPlane, api_server_options, run_api_server
from sampan.cli.envtest.etcd import STORE_PATH, UNSYNCED
from sampan.cli.flags import parsers
from sampan.cli.flags.store import store_config
from sampan.cli.flags.without_effect import component_flags, drop_flags, warn_without_effect
from sampan.cli.local_cluster.server_process import exit_process
from sampan.cluster.cluster_config import APISERVER, CONTROLLERS, StoreConfig
from sampan.cluster.pki import SERVER, Pki
from sampan.machinery.cli_errors import call_with_cli_errors

CONTROLLERS_VARIABLE = "SAMPAN_ENVTEST_CONTROLLERS"
_STORE_TIMEOUT_S = 5
# fmt: off
_REFUSED_FLAGS = frozenset(
    (
        "admission-control", "audit-webhook-batch-buffer-size", "audit-webhook-batch-max-size",
        "audit-webhook-batch-max-wait", "audit-webhook-batch-throttle-burst", "audit-webhook-batch-throttle-enable",
        "audit-webhook-batch-throttle-qps", "audit-webhook-config-file", "audit-webhook-initial-backoff",
        "audit-webhook-mode", "audit-webhook-truncate-enabled", "audit-webhook-truncate-max-batch-size",
        "audit-webhook-truncate-max-event-size", "audit-webhook-version", "cors-allowed-origins",
        "default-not-ready-toleration-seconds", "default-unreachable-toleration-seconds",
        "egress-selector-config-file", "etcd-prefix", "etcd-servers-overrides", "kubernetes-service-node-port",
        "max-connection-bytes-per-sec", "peer-ca-file", "service-account-signing-endpoint",
        "strict-transport-security-directives", "tls-cipher-suites", "tls-curve-preferences", "tls-sni-cert-key",
    )
)
"""The flags of kube-apiserver v1.36 that `sampan kube-apiserver` refuses, because it would not do what they ask for."""
# fmt: on


@click.command("kube-apiserver")
@api_server_options
def command(**options: Any) -> None:
    """Run the Kubernetes API server for envtest, on the etcd of `sampan envtest` or on a real one."""
    call_with_cli_errors(lambda: _run(options))
    exit_process()


def _run(options: dict[str, Any]) -> None:
    names = parsers.controllers(CONTROLLERS_VARIABLE, os.environ.get(CONTROLLERS_VARIABLE, ""))
    plane = ControlPlane(
        store=find_store(store_config(options)),
        components=(APISERVER, CONTROLLERS) if names else (APISERVER,),
        controllers=names,
        root_ca=_read_serving_certificate(options),
    )
    run_api_server(options, plane)


def main() -> None:
    command.main(args=drop_unused(sys.argv[1:]), prog_name="kube-apiserver")


def drop_unused(words: Sequence[str]) -> list[str]:
    """Return the command line without flags and feature gates that have no effect. Print the names of the removed ones
    to standard error."""
    unused = {f"--{name}" for name in _REFUSED_FLAGS.union(component_flags("kube-apiserver"))}
    used_flags, dropped = drop_flags(words, unused)
    warn_without_effect("kube-apiserver", dropped)
    return _drop_unknown_gates(used_flags)


def _drop_unknown_gates(words: Sequence[str]) -> list[str]:
    remaining_gates: list[str] = []
    remainder = list(reversed(words))
    while remainder:
        word = remainder.pop()
        name, equals, value = word.partition("=")
        if name == "--feature-gates":
            gates = value if equals else remainder.pop() if remainder else ""
            word = f"--feature-gates={_filter_gates(gates)}"
        remaining_gates.append(word)
    return remaining_gates


def _filter_gates(text: str) -> str:
    gates = {gate.partition("=")[0].strip(): gate for gate in text.split(",") if gate.strip()}
    for name in gates.keys() - IMPLEMENTED_GATES:
        click.echo(f"kube-apiserver: --feature-gates: {name} has no effect in Sampan", err=True)
    return ",".join(gate for name, gate in gates.items() if name in IMPLEMENTED_GATES)


def find_store(store: StoreConfig) -> StoreConfig:
    """Return the SQLite store that the etcd of `sampan envtest` names. If --etcd-servers is a real etcd, return `store`
    unchanged."""
    for url in store.etcd_servers:
        lines = _get(url).splitlines()
        if len(lines) == 2:
            path, sync = lines
            return StoreConfig(
                sqlite=Path(path), is_synced=sync != UNSYNCED, compaction_interval_s=store.compaction_interval_s
            )
    return store


def _get(url: str) -> str:
    """Return the response of the etcd of `sampan envtest` at STORE_PATH; empty for any other server. The request is
    written to a socket, because importing an HTTP client would take longer than the rest of the start."""
    address = urlsplit(url)
    if address.scheme != "http" or not address.hostname:
        return ""
    try:
        with socket.create_connection((address.hostname, address.port or 80), _STORE_TIMEOUT_S) as connection:
            connection.sendall(f"GET {STORE_PATH} HTTP/1.0\r\nHost: {address.netloc}\r\n\r\n".encode())
            response = b"".join(_blocks(connection))
    except OSError:
        return ""
    head, _, body = response.partition(b"\r\n\r\n")
    return body.decode() if head.split(b" ")[1:2] == [b"200"] else ""


def _blocks(connection: socket.socket) -> Iterable[bytes]:
    while block := connection.recv(65536):
        yield block


def _read_serving_certificate(options: dict[str, Any]) -> bytes:
    """Return the serving certificate, which is published to pods in place of a CA because envtest does not reveal its
    CA."""
    path = options["tls_cert_file"] or (options["cert_dir"] and Pki(Path(options["cert_dir"])).certificate(SERVER))
    try:
        return Path(path).read_bytes() if path else b""
    except OSError:
        return b""  # the server generates the certificate later, when it starts


if __name__ == "__main__":
    main()
