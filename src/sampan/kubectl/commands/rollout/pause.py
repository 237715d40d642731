"""`kubectl rollout pause`: changes of a deployment's pod template have no effect until it is resumed."""

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
class PauseOptions(RolloutOptions):
    output: OutputOptions = output_flags()
    field_manager: str = field_manager_flag("kubectl-rollout")


@KubectlCommand.define("pause", PauseOptions)
def command(factory: Factory, options: PauseOptions) -> None:
    """Pause the rollouts of deployments."""
    change_workloads(
        factory,
        options,
        _pause,
        output=options.output,
        field_manager=options.field_manager,
        operation="paused",
        unchanged="already paused",
    )


def _pause(value: dict[str, Any], info: ResourceInfo) -> None:
    if info.kind.kind != "Deployment":
        raise CliError("pausing is not supported")
    if value["spec"].get("paused"):
        raise CliError("is already paused")
    value["spec"]["paused"] = True
