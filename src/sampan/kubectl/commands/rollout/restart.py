"""`kubectl rollout restart`: replace all pods of a workload, with its update strategy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.shared_flags import field_manager_flag
from sampan.kubectl.commands.rollout.rollout_resources import RolloutOptions
from sampan.kubectl.commands.rollout.workload_change import change_workloads
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers import OutputOptions, output_flags
from sampan.machinery.cli_errors import CliError

_RESTARTED = "kubectl.kubernetes.io/restartedAt"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartOptions(RolloutOptions):
    field_manager: str = field_manager_flag("kubectl-rollout")
    output: OutputOptions = output_flags()


@KubectlCommand.define("restart", RestartOptions)
def command(factory: Factory, options: RestartOptions) -> None:
    """Replace all pods of deployments, daemon sets and stateful sets."""
    change_workloads(
        factory,
        options,
        _restart,
        output=options.output,
        field_manager=options.field_manager,
        operation="restarted",
        unchanged="",
    )


def _restart(value: dict[str, Any], info: ResourceInfo) -> None:
    if info.kind.kind not in ("Deployment", "DaemonSet", "StatefulSet"):
        raise CliError("restarting is not supported")
    if value["spec"].get("paused"):
        raise CliError("can't restart paused deployment (run rollout resume first)")
    metadata = value["spec"]["template"].setdefault("metadata", {})
    stamp = datetime.now().astimezone().isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _RESTARTED: stamp}
