"""A change of workloads by a patch, for pause, resume and restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.commands.rollout import report_no_resources, rollout_builder
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.object_writer import STRATEGIC, ObjectWriter, ResultPrinter
from sampan.kubectl.objects.pod_template import Change, compute_patches
from sampan.machinery.cli_errors import CliError


def change_workloads(
    factory: Factory,
    words: Sequence[str],
    options: Mapping[str, Any],
    change: Change,
    *,
    operation: str,
    unchanged: str,
) -> None:
    """Change each workload and report it. `unchanged` is the report for a workload that already has the change; if it
    is empty, such a workload is an error."""
    builder = rollout_builder(factory, words, options)
    printer = ResultPrinter(options, dry_run="none")
    errors = ErrorAggregate()
    infos = list(builder.infos(errors))
    if not infos:
        report_no_resources(factory, errors)
    writer = ObjectWriter(session=factory.session, field_manager=options["field_manager"])
    for info, value, patch in compute_patches(infos, change):
        if isinstance(patch, CliError):
            errors.add(KubectlError(f'error: {info.kind.group_resource} "{info.name}" {patch.message}'))
        elif patch:
            try:
                printer.print(writer.patch(info, patch, STRATEGIC), operation)
            except ServerError as error:
                errors.add(KubectlError(f"failed to patch: {error.error.message}"))
        elif unchanged:
            printer.print(value, unchanged)
        else:
            errors.add(
                KubectlError(
                    f"failed to create patch for {info.name}: if restart has already been triggered within the past "
                    "second, please wait before attempting to trigger another"
                )
            )
    errors.raise_any()
