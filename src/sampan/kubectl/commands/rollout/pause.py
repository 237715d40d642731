"""`kubectl rollout pause`: changes of a deployment's pod template have no effect until it is resumed."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.shared_options import field_manager_option, output_options
from sampan.kubectl.commands.rollout import rollout_options
from sampan.kubectl.commands.rollout.workload_change import change_workloads
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.machinery.cli_errors import CliError


@click.command("pause", cls=KubectlCommand)
@rollout_options()
@output_options()
@field_manager_option("kubectl-rollout")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Pause the rollouts of deployments."""
    change_workloads(factory, words, options, _pause, operation="paused", unchanged="already paused")


def _pause(value: dict[str, Any], info: ResourceInfo) -> None:
    if info.kind.kind != "Deployment":
        raise CliError("pausing is not supported")
    if value["spec"].get("paused"):
        raise CliError("is already paused")
    value["spec"]["paused"] = True
