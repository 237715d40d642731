"""`kubectl scale`: set the number of replicas of a workload."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.command import KubectlCommand, command_line_text
from sampan.kubectl.command_line.flags import arguments, duration_flag, int_flag, string_flag
from sampan.kubectl.command_line.shared_flags import (
    FilenameOptions,
    all_flag,
    dry_run_flag,
    dry_run_strategy,
    filename_flags,
    record_flag,
    selector_flag,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.object_writer import CHANGE_CAUSE, MERGE, ObjectWriter
from sampan.kubectl.objects.targets import ResourceBuilder, ResourceInfo, ResourceSelection, ResourceSource
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter

_RETRY_S = 1.0
_RETRY_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleOptions:
    words: tuple[str, ...] = arguments()
    record: bool = record_flag()
    output: OutputOptions = output_flags()
    selects_all: bool = all_flag()
    resource_version: str = string_flag(
        "--resource-version", metavar="VERSION", help="Only scale the object at this version."
    )
    current_replicas: int = int_flag(
        "--current-replicas", default=-1, metavar="N", help="Only scale from this number of replicas; -1 for any."
    )
    replicas: int = int_flag("--replicas", default=0, required=True, metavar="N", help="New number of replicas.")
    timeout_s: float = duration_flag(
        "--timeout",
        default_s=0.0,
        metavar="TIME",
        help="How long to wait until the number of replicas is reached; 0 does not wait.",
    )
    files: FilenameOptions = filename_flags("to scale")
    dry_run: str = dry_run_flag()
    selector: str = selector_flag()


@KubectlCommand.define("scale", ScaleOptions)
def command(factory: Factory, options: ScaleOptions) -> None:
    """Set the number of replicas of a deployment, replica set, replication controller or stateful set."""
    dry_run, replicas = dry_run_strategy(options.dry_run), options.replicas
    printer = ResultPrinter(options.output, dry_run)
    if replicas < 0:
        raise KubectlError("The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0")
    if options.current_replicas < -1:
        raise KubectlError("The --current-replicas must specify an integer of -1 or greater")
    errors = ErrorAggregate()
    builder = ResourceBuilder(
        factory,
        ResourceSelection(words=options.words, selector=options.selector, allows_all=options.selects_all),
        ResourceSource(files=options.files),
    )
    infos = list(builder.infos(errors))
    if options.resource_version and len(infos) > 1:
        raise KubectlError("cannot use --resource-version with multiple resources")
    if not infos:
        errors.raise_any()
        raise KubectlError("no objects passed to scale")
    for info in infos:
        actual = replicas
        if dry_run != "client":
            actual = _scale(factory.session, info, dry_run, options)
            if options.timeout_s and dry_run == "none":
                _wait(factory.session, info, replicas, options.timeout_s)
            if options.record:
                patch = {"metadata": {"annotations": {CHANGE_CAUSE: command_line_text()}}}
                ObjectWriter(session=factory.session).patch(info, patch, MERGE)
        value = info.value
        if info.kind.group in ("", "apps"):
            value = {**value, "spec": {**(value.get("spec") or {}), "replicas": actual}}
        printer.print(value, "scaled")
    errors.raise_any()


def _scale(session: Session, info: ResourceInfo, dry_run: str, options: ScaleOptions) -> int:
    """Change the scale subresource and return its number of replicas. Retry after a conflict."""
    deadline = time.monotonic() + _RETRY_LIMIT_S
    while True:
        try:
            return _change_scale(session, info, dry_run, options)
        except ServerError as error:
            if error.error.reason != "Conflict" or time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_S)


def _change_scale(session: Session, info: ResourceInfo, dry_run: str, options: ScaleOptions) -> int:
    path, query = f"{info.path}/scale", {"dryRun": "All"} if dry_run == "server" else {}
    version, current_replicas = options.resource_version, options.current_replicas
    if current_replicas == -1 and not version:
        body = {"spec": {"replicas": options.replicas}}
        return _replicas(session.send("PATCH", path, query, body=body, content_type=MERGE))
    scale = session.get(path)
    if current_replicas != -1 and _replicas(scale) != current_replicas:
        raise KubectlError(f"Expected replicas to be {current_replicas}, was {_replicas(scale)}")
    if version and scale["metadata"].get("resourceVersion") != version:
        raise KubectlError(f"Expected resource version to be {version}, was {scale['metadata'].get('resourceVersion')}")
    scale["spec"] = {**(scale.get("spec") or {}), "replicas": options.replicas}
    return _replicas(session.send("PUT", path, query, body=scale))


def _replicas(scale: dict[str, Any], part: str = "spec") -> int:
    return int((scale.get(part) or {}).get("replicas") or 0)


def _wait(session: Session, info: ResourceInfo, replicas: int, timeout_s: float) -> None:
    """Wait until the status has the number of replicas, or somebody else has changed the number."""
    deadline = time.monotonic() + timeout_s
    while True:
        scale = session.get(f"{info.path}/scale")
        if _replicas(scale) != replicas or _replicas(scale, "status") == replicas:
            return
        if time.monotonic() > deadline:
            raise KubectlError(f'timed out waiting for "{info.name}" to be synced')
        time.sleep(min(_RETRY_S, max(0.0, deadline - time.monotonic())))
