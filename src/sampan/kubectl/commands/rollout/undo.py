"""`kubectl rollout undo`: return to an earlier revision of a workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import int_flag
from sampan.kubectl.command_line.shared_flags import dry_run_flag, dry_run_strategy
from sampan.kubectl.commands.rollout.revisions import (
    REVISION,
    TEMPLATE_HASH,
    controller_revisions,
    has_controller_revisions,
    is_deployment,
    replica_sets_by_revision,
    template_text,
    unsupported_kind,
    workload_at,
)
from sampan.kubectl.commands.rollout.rollout_resources import RolloutOptions, rollout_builder
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.last_applied import LAST_APPLIED, last_applied_text
from sampan.kubectl.objects.object_writer import JSON_PATCH, STRATEGIC, ObjectWriter
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter

_DEPLOYMENT_ANNOTATIONS = frozenset(
    (
        LAST_APPLIED,
        REVISION,
        "deployment.kubernetes.io/revision-history",
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "deprecated.deployment.rollback.to",
    )
)
"""Annotations that belong to the Deployment rather than to a revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoOptions(RolloutOptions):
    to_revision: int = int_flag("--to-revision", default=0, metavar="N", help="Revision to return to; 0 for the last.")
    dry_run: str = dry_run_flag()
    output: OutputOptions = output_flags()


@KubectlCommand.define("undo", UndoOptions)
def command(factory: Factory, options: UndoOptions) -> None:
    """Return to an earlier revision of deployments, daemon sets and stateful sets."""
    dry_run = dry_run_strategy(options.dry_run)
    printer = ResultPrinter(options.output, dry_run)
    builder = rollout_builder(factory, options)
    errors = ErrorAggregate()
    for info in builder.infos(errors):
        with errors.collect():
            if last_applied_text(info.value) is not None:
                click.echo(_warning(info), err=True)
            rollback = _rollback_deployment if is_deployment(info) else _rollback_to_controller_revision
            printer.print(info.value, rollback(factory.session, info, options.to_revision, dry_run))
    errors.raise_any()


def _warning(info: ResourceInfo) -> str:
    name = f"{info.kind.plural}/{info.name}"
    return (
        f"Warning: resource {name} was previously managed with 'kubectl apply'. Rolling back will not update the "
        f"{LAST_APPLIED} annotation, which may cause unexpected behavior on future 'kubectl apply' operations. "
        "Consider using 'kubectl apply' with your previous configuration file instead."
    )


def _not_found(revision: int) -> KubectlError:
    return KubectlError(f"unable to find specified revision {revision} in history")


def _rollback_deployment(session: Session, info: ResourceInfo, revision: int, dry_run: str) -> str:
    if revision < 0:
        raise _not_found(revision)
    deployment = info.value
    replica_set = _target_replica_set(session, info, revision)
    if dry_run == "client":
        return template_text(replica_set["spec"]["template"])
    template = _without_hash(replica_set["spec"]["template"])
    if deployment["spec"].get("paused"):
        raise KubectlError(
            "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again"
        )
    if template == _without_hash(deployment["spec"]["template"]):
        return f"skipped rollback (current template already matches revision {revision})"
    annotations = {
        key: text
        for source, is_kept in ((deployment, True), (replica_set, False))
        for key, text in (source["metadata"].get("annotations") or {}).items()
        if (key in _DEPLOYMENT_ANNOTATIONS) == is_kept
    }
    patch = [
        {"op": "replace", "path": "/spec/template", "value": template},
        {"op": "replace", "path": "/metadata/annotations", "value": annotations},
    ]
    return _send(session, info, patch, JSON_PATCH, revision, dry_run)


def _send(session: Session, info: ResourceInfo, patch: Any, media_type: str, revision: int, dry_run: str) -> str:
    try:
        ObjectWriter(session=session, dry_run=dry_run).patch(info, patch, media_type)
    except ServerError as error:
        raise KubectlError(f"failed restoring revision {revision}: {error.error.message}") from None
    return "rolled back"


def _target_replica_set(session: Session, info: ResourceInfo, revision: int) -> dict[str, Any]:
    revisions = replica_sets_by_revision(session, info.value)
    if revision > 0:
        if revision not in revisions:
            raise _not_found(revision)
        return revisions[revision]
    if len(revisions) < 2:
        raise KubectlError(f'no rollout history found for deployment "{info.name}"')
    return list(revisions.values())[-2]


def _without_hash(template: dict[str, Any]) -> dict[str, Any]:
    metadata = template.get("metadata") or {}
    labels = {key: text for key, text in (metadata.get("labels") or {}).items() if key != TEMPLATE_HASH}
    remaining_metadata = {key: part for key, part in metadata.items() if key != "labels" and part is not None}
    return {**template, "metadata": remaining_metadata | ({"labels": labels} if labels else {})}


def _rollback_to_controller_revision(session: Session, info: ResourceInfo, revision: int, dry_run: str) -> str:
    if not has_controller_revisions(info):
        raise unsupported_kind(info, "rollbacker", "retrieving rollbacker")
    if revision < 0:
        raise _not_found(revision)
    revisions = controller_revisions(session, info.value)
    if revision == 0 and len(revisions) <= 1:
        raise KubectlError("no last revision to roll back to")
    target = list(revisions.values())[-2] if revision == 0 else revisions.get(revision)
    if target is None:
        raise _not_found(revision)
    value = workload_at(info.value, target)
    if dry_run == "client":
        return f"will roll back to {template_text(value['spec']['template'])}"
    if value["spec"]["template"] == info.value["spec"]["template"]:
        return f"skipped rollback (current template already matches revision {revision})"
    return _send(session, info, target.get("data") or {}, STRATEGIC, revision, dry_run)
