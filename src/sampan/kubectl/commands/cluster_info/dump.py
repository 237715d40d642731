"""`kubectl cluster-info dump`: print objects and logs of namespaces for the diagnosis of problems."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, duration_flag, string_flag, string_slice_flag
from sampan.kubectl.errors import KubectlError, ServerError
from sampan.kubectl.printers import OutputOptions, Printer, output_flags

_COLLECTIONS = (
    ("events", "/api/v1", "events", "EventList"),
    ("replication-controllers", "/api/v1", "replicationcontrollers", "ReplicationControllerList"),
    ("services", "/api/v1", "services", "ServiceList"),
    ("daemonsets", "/apis/apps/v1", "daemonsets", "DaemonSetList"),
    ("deployments", "/apis/apps/v1", "deployments", "DeploymentList"),
    ("replicasets", "/apis/apps/v1", "replicasets", "ReplicaSetList"),
    ("pods", "/api/v1", "pods", "PodList"),
)

_MAPS = (
    "labels",
    "annotations",
    "matchLabels",
    "nodeSelector",
    "selector",
    "capacity",
    "allocatable",
    "limits",
    "requests",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    words: tuple[str, ...] = arguments()
    output: OutputOptions = output_flags()
    output_directory: str = string_flag(
        "--output-directory", metavar="DIR", help="Directory to write files to; - is the output."
    )
    namespaces: tuple[str, ...] = string_slice_flag("--namespaces", metavar="NS", help="Namespaces to dump.")
    all_namespaces: bool = bool_flag("-A", "--all-namespaces", help="Dump all namespaces.")
    pod_running_timeout: float = duration_flag(
        "--pod-running-timeout", default_s=20.0, metavar="T", help="Time to wait for a running pod."
    )


@KubectlCommand.define("dump", DumpOptions)
def command(factory: Factory, options: DumpOptions) -> None:
    """Print the nodes, and the objects and logs of namespaces: by default kube-system and the current one."""
    output = options.output or replace(options.output, format="json")
    printer, session = output.printer(is_sorted=False), factory.session
    suffix = {"json": ".json", "yaml": ".yaml"}.get(output.format, ".txt")
    directory = "" if options.output_directory == "-" else options.output_directory
    _write(directory, f"nodes{suffix}", _print_to_bytes(printer, session.get("/api/v1/nodes")))
    namespaces = list(options.namespaces) or ["kube-system", factory.namespace]
    if options.all_namespaces:
        namespaces = [item["metadata"]["name"] for item in session.get("/api/v1/namespaces").get("items") or ()]
    for namespace in namespaces:
        pods: list[Any] = []
        for name, prefix, plural, _ in _COLLECTIONS:
            collection = session.get(f"{prefix}/namespaces/{namespace}/{plural}")
            pods = collection.get("items") or []
            _write(directory, f"{namespace}/{name}{suffix}", _print_to_bytes(printer, collection))
        for pod in pods:
            _write(directory, f"{namespace}/{pod['metadata']['name']}/logs.txt", _logs(factory, pod))
    if directory:
        click.echo(f"Cluster info dumped to {directory}")


def _print_to_bytes(printer: Printer, value: dict[str, Any]) -> bytes:
    buffer = io.StringIO()
    title = {key: value.get(key) for key in ("kind", "apiVersion", "metadata")}
    with contextlib.redirect_stdout(buffer):
        printer.print(_sort_maps({**title, "items": value.get("items") or None}))
    return buffer.getvalue().encode()


def _sort_maps(value: Any) -> Any:
    """Sort the keys of maps, such as labels, as Go does; the fields of objects keep the order of the server."""
    if isinstance(value, list):
        return [_sort_maps(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: dict(sorted(part.items())) if key in _MAPS and isinstance(part, dict) else _sort_maps(part)
        for key, part in value.items()
    }


def _logs(factory: Factory, pod: dict[str, Any]) -> bytes:
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    data = b""
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        title = f"logs for container {container['name']} of pod {metadata['namespace']}/{metadata['name']} ====\n"
        data += f"==== START {title}".encode()
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log?container={container['name']}"
        try:
            data += factory.session.read(path)
        except ServerError as error:
            data += f"Request log error: {error.error.message}\n".encode()
        data += f"==== END {title}".encode()
    return data


def _write(directory: str, name: str, data: bytes) -> None:
    if not directory:
        sys.stdout.buffer.write(data)
        return
    path = Path(directory) / name
    try:
        _make_private_directory(path.parent)
    except OSError as error:
        files = (parent for parent in path.parents if os.path.exists(parent) and not os.path.isdir(parent))
        raise KubectlError(f"mkdir {next(files, error.filename)}: {(error.strerror or '').lower()}") from None
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
    except OSError as error:
        raise KubectlError(f"open {path}: {(error.strerror or '').lower()}") from None


def _make_private_directory(path: Path) -> None:
    """Create a directory and its parents for the owner only: a dump may have secrets, such as those in logs."""
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if not path.is_dir():
        _make_private_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
