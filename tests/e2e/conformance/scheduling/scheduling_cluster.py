"""A cluster of two hollow nodes and the real kubectl, for the conformance tests of the scheduler."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sampan.testing import Cluster
from tests.e2e.kubectl.command import Kubectl
from tests.eventually import wait_until

NODES = ("node-0", "node-1")
CPUS = 32
"""CPUs of each node."""

Object = dict[str, Any]


@dataclass
class SchedulingCluster:
    cluster: Cluster
    kubectl: Kubectl
    namespace: str

    def apply(self, *objects: Object) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def pod(self, name: str) -> Object:
        pod: Object = self.kubectl.json("get", "pod", name)
        return pod

    def has_pod(self, name: str) -> bool:
        return bool(self.kubectl("get", "pod", name, "--ignore-not-found", "-o", "name"))

    def node_of(self, name: str) -> str:
        return str(self.pod(name)["spec"].get("nodeName", ""))

    def wait_until_ready(self, *names: str) -> None:
        """Wait until the pods are ready."""
        self.kubectl("wait", "--for=condition=Ready", "--timeout=60s", *(f"pod/{name}" for name in names))

    def events_of(self, name: str, reason: str) -> list[str]:
        events = self.kubectl.json("get", "events", "--field-selector", f"involvedObject.name={name},reason={reason}")
        return [event["message"] for event in events["items"]]

    def wait_until_unschedulable(self, name: str, message: str) -> None:
        """Wait until the pod is reported as unschedulable with this message."""
        wait_until(lambda: any(text.startswith(message) for text in self.events_of(name, "FailedScheduling")))
        assert self.node_of(name) == ""
        (condition,) = [
            condition for condition in self.pod(name)["status"]["conditions"] if condition["type"] == "PodScheduled"
        ]
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"].startswith(message)

    def clear(self) -> None:
        """Delete all pods, so that the nodes are empty again."""
        self.kubectl("delete", "pods,replicasets", "--all", "--force", "--grace-period=0", "--wait=false")
        wait_until(lambda: not self.kubectl("get", "pods", "-o", "name"))

    @contextmanager
    def labelled(self, node: str, key: str, value: str) -> Iterator[None]:
        self.kubectl("label", "node", node, f"{key}={value}")
        try:
            yield
        finally:
            self.kubectl("label", "node", node, f"{key}-")

    @contextmanager
    def priority_classes(self, **values: int) -> Iterator[None]:
        """Create priority classes with these values for the length of the block."""
        self.apply(
            *(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                }
                for name, value in values.items()
            )
        )
        try:
            yield
        finally:
            self.kubectl("delete", "priorityclass", *values)


def pod_spec(*, cpus: float = 0, priority: str = "", **more: Any) -> Object:
    resources = {"requests": {"cpu": f"{int(cpus * 1000)}m"}, "limits": {"cpu": f"{int(cpus * 1000)}m"}} if cpus else {}
    container = {"name": "pause", "image": "pause:3", "resources": resources, **more.pop("container", {})}
    return {
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        **({"priorityClassName": priority} if priority else {}),
        **more,
    }


def pod(name: str, *, finalizers: Sequence[str] = (), **spec: Any) -> Object:
    metadata = {"name": name, "finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(**spec)}
