"""Builds the parts of a kubelet from its configuration and the properties of its machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from sampan.api.quantity import parse
from sampan.api.types.core_v1 import Pod
from sampan.api.types.node_v1 import RuntimeClass
from sampan.kubelet.agent import machine as machines
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.image_access import PulledImages
from sampan.kubelet.agent.pulling import ImageManager
from sampan.kubelet.container_config.builder import ContainerConfigBuilder, NodeSettings
from sampan.kubelet.container_config.dns import DnsConfig, read_resolv_conf
from sampan.kubelet.node_status import Machine
from sampan.kubelet.probes import ProbeManager
from sampan.machinery.events import WARNING
from sampan.machinery.informer import Lister
from sampan.runtimes.contract import Runtime, RuntimeFailure

if TYPE_CHECKING:
    from sampan.api.types.core_v1 import Service
    from sampan.kubelet.agent.kubelet import Kubelet


def machine_of(config: AgentConfig, facts: machines.Facts, runtime: Runtime) -> Machine:
    addresses = list(config.node_ips) or machines.own_addresses()
    capacity = machines.capacity(facts, max_pods=config.max_pods, pods_per_core=config.pods_per_core)
    reserved = (config.kube_reserved, config.system_reserved)
    version = f"{runtime.name}://{runtime.version}"
    return Machine(
        capacity=capacity,
        allocatable=machines.allocatable(capacity, reserved, config.eviction_hard),
        address=addresses[0],
        more_addresses=addresses[1:],
        runtime=version,
        port=config.port,
        info=msgspec.structs.replace(facts.info, containerRuntimeVersion=version),
    )


def pods_memory(config: AgentConfig, memory_bytes: int) -> int:
    """Return the memory available to all pods together: that of the machine minus what is reserved."""
    reserved = (config.kube_reserved, config.system_reserved)
    return memory_bytes - sum(
        int(parse(reservation["memory"]).value()) for reservation in reserved if "memory" in reservation
    )


def make_probes(kubelet: Kubelet) -> ProbeManager:
    return ProbeManager(
        runtime=kubelet.runtime,
        clock=kubelet.clock,
        on_change=kubelet.look_at,
        event=lambda pod, container, reason, message: kubelet.events.container(
            kubelet.node, pod, container, WARNING, reason, message
        ),
        activity=kubelet.activity,
        metrics=kubelet.probe_metrics,
    )


def make_environment(
    kubelet: Kubelet, facts: machines.Facts, services: Lister[Service], classes: Lister[RuntimeClass]
) -> ContainerConfigBuilder:
    return ContainerConfigBuilder(
        config=_environment_config(kubelet.config, kubelet.node.machine, facts),
        objects=kubelet.objects,
        services=services,
        cgroup_parent=kubelet.groups.parent,
        handler=lambda pod: _handler(pod, classes.get),
        warn=lambda pod, reason, message: kubelet.events.pod(kubelet.node, pod, WARNING, reason, message),
    )


def _environment_config(config: AgentConfig, machine: Machine, facts: machines.Facts) -> NodeSettings:
    try:
        resolv = read_resolv_conf(config.resolv_conf.read_text())
    except OSError:
        resolv = read_resolv_conf("")
    return NodeSettings(
        root=config.root,
        logs=config.logs,
        node_name=config.name,
        host_ips=(machine.address, *machine.more_addresses),
        node_memory=facts.memory_bytes,
        allocatable=machine.allocatable or {},
        has_seccomp=config.has_default_seccomp,
        dns=DnsConfig(node=resolv, cluster_servers=config.cluster_dns, cluster_domain=config.cluster_domain),
    )


def _handler(pod: Pod, find: Callable[[str], RuntimeClass | None]) -> str:
    name = pod.spec.runtimeClassName
    if not name:
        return ""
    runtime_class = find(name)
    if runtime_class is None:
        text = f'failed to get sandbox runtime: runtimeclass.node.k8s.io "{name}" not found'
        raise RuntimeFailure("FailedCreatePodSandBox", text)
    return runtime_class.handler


def make_images(kubelet: Kubelet) -> ImageManager:
    config = kubelet.config
    return ImageManager(
        runtime=kubelet.runtime,
        objects=kubelet.objects,
        events=kubelet.events,
        clock=kubelet.clock,
        at_a_time=1 if config.serializes_pulls else config.max_parallel_pulls,
        pulled=PulledImages(config.root),
        policy=config.image_policy,
        listed=config.listed_images,
    )
