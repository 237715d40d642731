"""`kubectl rollout history`: list the revisions of a workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import int_flag
from sampan.kubectl.commands.rollout.revisions import (
    change_cause_of,
    controller_revisions,
    has_controller_revisions,
    is_deployment,
    replica_sets_by_revision,
    template_text,
    unsupported_kind,
    workload_at,
)
from sampan.kubectl.commands.rollout.rollout_resources import RolloutOptions, rollout_builder
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.kubectl.printers.results import ResultPrinter


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions(RolloutOptions):
    revision: int = int_flag("--revision", default=0, metavar="N", help="Show the pod template of this revision.")
    output: OutputOptions = output_flags()


@KubectlCommand.define("history", HistoryOptions)
def command(factory: Factory, options: HistoryOptions) -> None:
    """List the revisions of deployments, daemon sets and stateful sets."""
    builder = rollout_builder(factory, options)
    revision = options.revision
    if revision < 0:
        raise KubectlError(f"revision must be a positive integer: {revision}")
    printer = ResultPrinter(options.output, "none")
    errors = ErrorAggregate()
    for info in builder.infos(errors):
        with errors.collect():
            if options.output.format or options.output.template:
                _print_objects(factory.session, info, revision, printer)
            else:
                title = f"with revision #{revision}" if revision > 0 else ""
                printer.print(info.value, f"{title}\n{_history_text(factory.session, info, revision)}")
    errors.raise_any()


def _print_objects(session: Session, info: ResourceInfo, revision: int, printer: ResultPrinter) -> None:
    revisions = _revisions(session, info)
    values = {
        number: value if is_deployment(info) else workload_at(info.value, value) for number, value in revisions.items()
    }
    if revision > 0 and revision not in values:
        raise KubectlError("unable to find the specified revision")
    for number, value in values.items():
        if revision in (0, number):
            printer.print(value, "")


def _revisions(session: Session, info: ResourceInfo) -> dict[int, dict[str, Any]]:
    if is_deployment(info):
        return replica_sets_by_revision(session, info.value)
    if has_controller_revisions(info):
        return controller_revisions(session, info.value)
    raise unsupported_kind(info, "history viewer", "retrieving history")


def _history_text(session: Session, info: ResourceInfo, revision: int) -> str:
    revisions = _revisions(session, info)
    if not revisions:
        return "No rollout history found."
    if revision > 0:
        if revision not in revisions:
            raise KubectlError("unable to find the specified revision")
        return template_text(_template(info, revisions[revision]))
    width = max(len("REVISION"), *(len(str(number)) for number in revisions)) + 2
    lines = [f"{'REVISION':<{width}}CHANGE-CAUSE"]
    lines += [f"{number!s:<{width}}{change_cause_of(value)}" for number, value in revisions.items()]
    return "\n".join(lines) + "\n"


def _template(info: ResourceInfo, revision: dict[str, Any]) -> dict[str, Any]:
    """Return the pod template of a revision, with the change cause as an annotation for a Deployment."""
    if not is_deployment(info):
        template: dict[str, Any] = workload_at(info.value, revision)["spec"]["template"]
        return template
    template = dict(revision["spec"]["template"])
    cause = change_cause_of(revision)
    if cause != "<none>":
        metadata = template.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), "kubernetes.io/change-cause": cause}
        template["metadata"] = {**metadata, "annotations": annotations}
    return template
