"""`kubectl rollout restart`: replace all pods of a workload, with its update strategy."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.shared_options import field_manager_option, output_options
from sampan.kubectl.commands.rollout import rollout_options
from sampan.kubectl.commands.rollout.workload_change import change_workloads
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.machinery.cli_errors import CliError

_RESTARTED = "kubectl.kubernetes.io/restartedAt"


@click.command("restart", cls=KubectlCommand)
@rollout_options()
@field_manager_option("kubectl-rollout")
@output_options()
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Replace all pods of deployments, daemon sets and stateful sets."""
    change_workloads(factory, words, options, _restart, operation="restarted", unchanged="")


def _restart(value: dict[str, Any], info: ResourceInfo) -> None:
    if info.kind.kind not in ("Deployment", "DaemonSet", "StatefulSet"):
        raise CliError("restarting is not supported")
    if value["spec"].get("paused"):
        raise CliError("can't restart paused deployment (run rollout resume first)")
    metadata = value["spec"]["template"].setdefault("metadata", {})
    stamp = datetime.now().astimezone().isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _RESTARTED: stamp}
