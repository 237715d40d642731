"""The state of a pod in runtimes that keep their own records, and the report about it for the kubelet."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from sampan.api.types.core_v1 import Pod
from sampan.runtimes import contract
from sampan.runtimes.config import ContainerConfig, SandboxConfig
from sampan.runtimes.contract import ContainerReport, PodReport
from sampan.runtimes.records import ContainerRecord, SandboxRecord


class PodState:
    """The in-memory state of a pod, which mirrors its records on disk."""

    def __init__(self, record: SandboxRecord) -> None:
        self.sandbox = record
        self.config: SandboxConfig | None = None
        self.spaces: dict[str, str] = {}
        self.containers: dict[str, ContainerRecord] = {}
        """Records of all runs of all containers, by container id."""
        self.specs: dict[str, dict[str, Any]] = {}
        """The OCI process specification of each container by id, which exec reuses for additional commands."""
        self.kills: dict[str, asyncio.Task[None]] = {}

    def runs_of(self, name: str) -> list[ContainerRecord]:
        """Return the runs of a container, the latest first."""
        return sorted(
            (record for record in self.containers.values() if record.name == name), key=lambda record: -record.attempt
        )

    def list_running_containers(self) -> list[ContainerRecord]:
        return [record for record in self.containers.values() if record.state == contract.RUNNING]


def make_sandbox_record(config: SandboxConfig, old: PodState | None, now: float) -> SandboxRecord:
    """Return a sandbox record that is not ready yet."""
    return SandboxRecord(
        uid=config.uid,
        name=config.name,
        namespace=config.namespace,
        attempt=config.attempt,
        created_at=now,
        is_ready=False,
        host_network=config.namespaces.network == "node",
        hostname=config.hostname,
        sandbox_count=old.sandbox.sandbox_count + 1 if old is not None else 1,
    )


def make_container_record(config: ContainerConfig, attempt: int, now: float) -> ContainerRecord:
    return ContainerRecord(
        id=secrets.token_hex(16),
        name=config.name,
        attempt=attempt,
        image=config.image,
        image_ref=config.image_ref,
        created_at=now,
        log_path=str(config.log_path),
        has_tty=config.has_tty,
        stop_signal=config.stop_signal,
        memory_bytes=config.resources.memory_bytes,
    )


def report(state: PodState, pod: Pod, runtime: str) -> PodReport:
    """Return the report for a pod. Init containers run again in a new sandbox, so their runs in the old sandbox are not
    current, and neither are failed runs of other containers: both are reported as previous runs."""
    record, inits = state.sandbox, {container.name for container in pod.spec.initContainers}
    names = dict.fromkeys(container.name for container in state.containers.values() if container.name)
    present, before = [], []
    for runs in (state.runs_of(name) for name in names):
        is_left = runs[0].created_at < record.created_at and (runs[0].name in inits or runs[0].exit_code != 0)
        older = runs if is_left else runs[1:]
        present += [] if is_left else runs[:1]
        before += older[:1]
    return PodReport(
        is_sandbox_ready=record.is_ready,
        sandboxes=record.sandbox_count,
        ips=record.ips if record.is_ready else (),
        containers=[_container(container, runtime) for container in present],
        before=[_container(container, runtime) for container in before],
    )


def _container(record: ContainerRecord, runtime: str) -> ContainerReport:
    is_running = record.state == contract.RUNNING
    return ContainerReport(
        name=record.name,
        id=f"{runtime}://{record.id}",
        state=record.state,
        attempt=record.attempt,
        image=record.image,
        image_ref=record.image_ref,
        started_at=record.started_at,
        finished_at=record.finished_at,
        exit_code=record.exit_code,
        reason=record.reason,
        message=record.message,
        is_started=is_running,
        is_ready=is_running,
        user=record.user,
    )
