"""`kubectl set serviceaccount`: change the service account of pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.shared_flags import check_local, dry_run_strategy, record_flag
from sampan.kubectl.commands.set.feature_change import SetOptions, apply_changes, select_objects
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.object_writer import record_change
from sampan.kubectl.objects.pod_template import pod_spec_of
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers.results import ResultPrinter


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceaccountOptions(SetOptions):
    record: bool = record_flag()


@KubectlCommand.define("serviceaccount", ServiceaccountOptions, aliases=("sa",))
def command(factory: Factory, options: ServiceaccountOptions) -> None:
    """Change the service account of a workload's pods. The last word is its name."""
    dry_run = dry_run_strategy(options.dry_run)
    check_local(options.local, dry_run)
    printer = ResultPrinter(options.output, dry_run)
    if not options.words:
        raise KubectlError("serviceaccount is required")
    *resources, name = options.words

    def change(value: dict[str, Any], info: ResourceInfo) -> None:
        pod_spec = pod_spec_of(value, info)
        pod_spec["serviceAccountName"] = name
        record_change(value, options.record)

    apply_changes(
        select_objects(factory, () if options.local else resources, options),
        change,
        factory=factory,
        options=options,
        dry_run=dry_run,
        printer=printer,
        operation="serviceaccount updated",
        failure="failed to patch ServiceAccountName",
        sends_empty=True,
    )
