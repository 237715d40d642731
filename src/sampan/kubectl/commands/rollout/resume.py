"""`kubectl rollout resume`: continue the rollouts of a paused deployment."""

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


@click.command("resume", cls=KubectlCommand)
@rollout_options()
@field_manager_option("kubectl-rollout")
@output_options()
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Resume the rollouts of paused deployments."""
    change_workloads(factory, words, options, _resume, operation="resumed", unchanged="already resumed")


def _resume(value: dict[str, Any], info: ResourceInfo) -> None:
    if info.kind.kind != "Deployment":
        raise CliError("resuming is not supported")
    if not value["spec"].get("paused"):
        raise CliError("is not paused")
    value["spec"].pop("paused")
