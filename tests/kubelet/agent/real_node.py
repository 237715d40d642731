"""A kubelet in this process whose pods are plain processes, with an interruptible connection to its API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sampan.cluster.nodes.hollow_nodes import node_user
from sampan.cluster.nodes.node_runtime import RuntimeConfig, runtime_maker
from sampan.host.clock import Clock, RealClock
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.kubelet import Kubelet, build_kubelet
from sampan.machinery.client import Client
from sampan.machinery.telemetry.flight_recorder import FlightRecorder
from tests.e2e.chaos.interruptible_transport import Line, LineTransport

NAME = "lonely"


@asynccontextmanager
async def real_node(
    directory: Path,
    line: Line,
    *,
    runtime: str = "process",
    clock: Clock | None = None,
    ends_pods: bool = True,
    **config: Any,
) -> AsyncIterator[Kubelet]:
    """Run a kubelet for the duration of the block. Without `ends_pods`, its pods keep running for the next kubelet."""
    clock = clock or RealClock()
    transport = LineTransport(line=line, user=node_user(NAME))
    settings: dict[str, Any] = {
        "eviction_hard": {},
        "has_cgroups_per_qos": False,
        "node_ips": ["127.0.0.1"],
        "port": 0,
    } | config
    async with (
        build_kubelet(
            config=AgentConfig(
                name=NAME,
                root=directory / "kubelet",
                logs=directory / "logs",
                ends_pods=ends_pods,
                relist_s=2.0,
                **settings,
            ),
            client=Client(transport=transport, clock=clock, component="kubelet"),
            clock=clock,
            make_runtime=runtime_maker(
                runtime,
                RuntimeConfig(
                    node=NAME, directory=directory / "runtime", images=directory / "images", stops_pods=ends_pods
                ),
                clock,
            ),
            recorder=FlightRecorder(clock=clock),
        ) as kubelet,
        asyncio.TaskGroup() as group,
    ):
        task = group.create_task(kubelet.run())
        try:
            yield kubelet
        finally:
            task.cancel()


def phase(kubelet: Kubelet, name: str, namespace: str = "default") -> str:
    pod = kubelet.find(namespace, name)
    return pod.status.phase if pod is not None else ""


def manifest(name: str, *command: str, **spec: Any) -> str:
    from sampan.api.codec import json

    container = {"name": "c", "image": "sampan.local/host", "command": list(command or ("sleep", "1000"))}
    pod_spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "hostNetwork": True, **spec}
    return json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec}).decode()
