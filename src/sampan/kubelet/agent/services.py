"""The objects that nearly every part of a real node's kubelet needs, created before the parts (`components`)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from sampan.api.types.core_v1 import Pod
from sampan.api.values.quantity import parse
from sampan.host.activity import Activity
from sampan.host.clock import Clock
from sampan.kubelet.agent import machine as machines
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.node_status_updater import desired_node
from sampan.kubelet.cgroups import PodCgroups
from sampan.kubelet.container_config.memory_qos import TIERED_RESERVATION, MemoryQos
from sampan.kubelet.metrics import KubeletMetrics, MeasuredRuntime
from sampan.kubelet.node_status import NodeMachine, declared_features
from sampan.kubelet.objects import PodObjects
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.records import NodeRecord, PodQueue, Records
from sampan.machinery.client import Client
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.telemetry.flight_recorder import FlightRecorder
from sampan.runtimes.contract import Runtime

COMPONENT = "kubelet"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletServices:
    """The objects that nearly every part of a kubelet needs. They are complete before the first part is created."""

    config: AgentConfig
    client: Client
    clock: Clock
    activity: Activity
    recorder: FlightRecorder | None
    records: Records
    queue: PodQueue
    informers: InformerFactory
    runtime: Runtime
    facts: machines.MachineFacts
    node: NodeRecord
    objects: PodObjects
    event_recorder: EventRecorder
    events: PodEvents
    cgroups: PodCgroups
    metrics: KubeletMetrics
    status_due: asyncio.Event
    """Set when the node status must be written without waiting for the next period."""

    def warn_node(self, reason: str, message: str) -> None:
        self.events.record_node_event(self.node, reason, message, WARNING)

    def warn_pod(self, pod: Pod, reason: str, message: str) -> None:
        self.events.record_pod_event(self.node, pod, WARNING, reason, message)


async def build_services(
    *,
    config: AgentConfig,
    client: Client,
    clock: Clock,
    activity: Activity,
    recorder: FlightRecorder | None,
    records: Records,
    queue: PodQueue,
    informers: InformerFactory,
    runtime: Runtime,
) -> KubeletServices:
    metrics = KubeletMetrics()
    runtime = MeasuredRuntime(runtime, metrics)
    facts = await asyncio.to_thread(machines.read_facts, config.root)
    machine = machine_of(config, facts, runtime)
    event_recorder = EventRecorder(client=client, clock=clock, component=COMPONENT, host=config.name, activity=activity)
    return KubeletServices(
        config=config,
        client=client,
        clock=clock,
        activity=activity,
        recorder=recorder,
        records=records,
        queue=queue,
        informers=informers,
        runtime=runtime,
        facts=facts,
        node=NodeRecord(
            name=config.name,
            client=client,
            runtime=runtime,
            machine=machine,
            api_node=desired_node(config, machine, clock.now()),
        ),
        objects=PodObjects(informers=informers),
        event_recorder=event_recorder,
        events=PodEvents(event_recorder),
        cgroups=await _build_cgroups(config, facts, machine, metrics),
        metrics=metrics,
        status_due=asyncio.Event(),
    )


def machine_of(config: AgentConfig, facts: machines.MachineFacts, runtime: Runtime) -> NodeMachine:
    addresses = list(config.node_ips) or machines.find_machine_addresses()
    capacity = machines.capacity(facts, max_pods=config.max_pods, pods_per_core=config.pods_per_core)
    reserved = (config.kube_reserved, config.system_reserved)
    version = f"{runtime.name}://{runtime.version}"
    return NodeMachine(
        capacity=capacity,
        allocatable=machines.allocatable(capacity, reserved, config.eviction_hard),
        address=addresses[0],
        more_addresses=addresses[1:],
        runtime=version,
        port=config.port,
        info=msgspec.structs.replace(
            facts.info,
            containerRuntimeVersion=version,
            runningInUserNamespace=machines.is_in_user_namespace()
            if config.kubelet.feature_gates.is_enabled("KubeletInUserNamespace")
            else None,
        ),
        declared_features=declared_features(config.kubelet.feature_gates),
    )


async def _build_cgroups(
    config: AgentConfig, facts: machines.MachineFacts, machine: NodeMachine, metrics: KubeletMetrics
) -> PodCgroups:
    memory_qos = MemoryQos(
        is_enabled=config.kubelet.feature_gates.is_enabled("MemoryQoS"),
        throttling_factor=config.memory_throttling_factor,
        reserves=config.memory_reservation_policy == TIERED_RESERVATION,
        allocatable=int(parse((machine.allocatable or machine.capacity)["memory"]).value()),
    )
    cgroups = PodCgroups(root=config.cgroup_root, pids=config.pod_pids, memory_qos=memory_qos, metrics=metrics)
    if config.has_cgroups_per_qos:
        memory = _memory_of_pods(config, facts.memory_bytes)
        await asyncio.to_thread(cgroups.start, cores=facts.cores, memory_bytes=memory)
    return cgroups


def _memory_of_pods(config: AgentConfig, memory_bytes: int) -> int:
    """Return the memory available to all pods together: the memory of the machine minus the reserved memory."""
    reserved = (config.kube_reserved, config.system_reserved)
    return memory_bytes - sum(
        int(parse(reservation["memory"]).value()) for reservation in reserved if "memory" in reservation
    )
