"""`kubectl scale`: set the number of replicas of a workload."""

from __future__ import annotations

import time
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import DURATION
from sampan.kubectl.command_line.shared_options import (
    dry_run_of,
    dry_run_option,
    filename_flags,
    filename_options,
    output_options,
    selector_option,
)
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.object_writer import (
    CHANGE_CAUSE,
    MERGE,
    ObjectWriter,
    ResultPrinter,
    change_cause,
    record_option,
)
from sampan.kubectl.objects.targets import ResourceInfo

_RETRY_S = 1.0
_RETRY_LIMIT_S = 300.0


@click.command("scale", cls=KubectlCommand)
@click.argument("words", nargs=-1)
@record_option()
@output_options()
@click.option("--all", "selects_all", is_flag=True, help="Select all objects of the types in the namespace.")
@click.option("--resource-version", default="", metavar="VERSION", help="Only scale the object at this version.")
@click.option(
    "--current-replicas",
    type=click.INT,
    default=-1,
    metavar="N",
    help="Only scale from this number of replicas; -1 for any.",
)
@click.option("--replicas", type=click.INT, default=0, required=True, metavar="N", help="New number of replicas.")
@click.option(
    "--timeout",
    "timeout_s",
    type=DURATION,
    default=0.0,
    metavar="TIME",
    help="How long to wait until the number of replicas is reached; 0 does not wait.",
)
@filename_options("to scale")
@dry_run_option()
@selector_option()
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Set the number of replicas of a deployment, replica set, replication controller or stateful set."""
    dry_run, printer, replicas = dry_run_of(options), ResultPrinter(options), options["replicas"]
    if replicas < 0:
        raise KubectlError("The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0")
    if options["current_replicas"] < -1:
        raise KubectlError("The --current-replicas must specify an integer of -1 or greater")
    errors = ErrorAggregate()
    builder = factory.resources(
        words=words,
        files=filename_flags(options),
        selector=options["selector"],
        allows_all=options["selects_all"],
    )
    infos = list(builder.infos(errors))
    if options["resource_version"] and len(infos) > 1:
        raise KubectlError("cannot use --resource-version with multiple resources")
    if not infos:
        errors.raise_any()
        raise KubectlError("no objects passed to scale")
    for info in infos:
        actual = replicas
        if dry_run != "client":
            actual = _scale(factory.session, info, dry_run, options)
            if options["timeout_s"] and dry_run == "none":
                _wait(factory.session, info, replicas, options["timeout_s"])
            if options["record"]:
                patch = {"metadata": {"annotations": {CHANGE_CAUSE: change_cause()}}}
                ObjectWriter(session=factory.session).patch(info, patch, MERGE)
        value = info.value
        if info.kind.group in ("", "apps"):
            value = {**value, "spec": {**(value.get("spec") or {}), "replicas": actual}}
        printer.print(value, "scaled")
    errors.raise_any()


def _scale(session: Session, info: ResourceInfo, dry_run: str, options: dict[str, Any]) -> int:
    """Change the scale subresource and return its number of replicas. Retry after a conflict."""
    deadline = time.monotonic() + _RETRY_LIMIT_S
    while True:
        try:
            return _change_scale(session, info, dry_run, options)
        except ServerError as error:
            if error.error.reason != "Conflict" or time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_S)


def _change_scale(session: Session, info: ResourceInfo, dry_run: str, options: dict[str, Any]) -> int:
    path, query = f"{info.path}/scale", {"dryRun": "All"} if dry_run == "server" else {}
    version, current_replicas = options["resource_version"], options["current_replicas"]
    if current_replicas == -1 and not version:
        body = {"spec": {"replicas": options["replicas"]}}
        return _replicas(session.send("PATCH", path, query, body=body, content_type=MERGE))
    scale = session.get(path)
    if current_replicas != -1 and _replicas(scale) != current_replicas:
        raise KubectlError(f"Expected replicas to be {current_replicas}, was {_replicas(scale)}")
    if version and scale["metadata"].get("resourceVersion") != version:
        raise KubectlError(f"Expected resource version to be {version}, was {scale['metadata'].get('resourceVersion')}")
    scale["spec"] = {**(scale.get("spec") or {}), "replicas": options["replicas"]}
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
