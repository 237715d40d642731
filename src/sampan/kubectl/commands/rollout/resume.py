"""`kubectl rollout resume`: continue the rollouts of a paused deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.shared_flags import field_manager_flag
from sampan.kubectl.commands.rollout.rollout_resources import RolloutOptions
from sampan.kubectl.commands.rollout.workload_change import change_workloads
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.machinery.cli_errors import CliError


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions(RolloutOptions):
    field_manager: str = field_manager_flag("kubectl-rollout")
    output: OutputOptions = output_flags()


@KubectlCommand.define("resume", ResumeOptions)
def command(factory: Factory, options: ResumeOptions) -> None:
    """Resume the rollouts of paused deployments."""
    change_workloads(
        factory,
        options,
        _resume,
        output=options.output,
        field_manager=options.field_manager,
        operation="resumed",
        unchanged="already resumed",
    )


def _resume(value: dict[str, Any], info: ResourceInfo) -> None:
    if info.kind.kind != "Deployment":
        raise CliError("resuming is not supported")
    if not value["spec"].get("paused"):
        raise CliError("is not paused")
    value["spec"].pop("paused")
