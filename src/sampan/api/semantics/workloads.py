"""Workloads with a number of replicas: Deployments, ReplicaSets, ReplicationControllers and StatefulSets."""

from typing import Protocol


class ReplicatedSpec(Protocol):
    @property
    def replicas(self) -> int | None: ...


class ReplicatedWorkload(Protocol):
    @property
    def spec(self) -> ReplicatedSpec: ...


def desired_replicas(workload: ReplicatedWorkload) -> int:
    """Return the desired number of pods; 1 if unset, which is the default of the API."""
    replicas = workload.spec.replicas
    return 1 if replicas is None else replicas
