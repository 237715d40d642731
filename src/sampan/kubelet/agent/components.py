"""The composition root of a real node's kubelet: creates its parts, each complete, from its configuration and machine.

Parts receive their collaborators, never the kubelet. Where two parts need each other, both get a narrow object that is
created before them: the pod queue, the event that says that the node status is due, the evictor.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sampan.api.types.core_v1 import Pod, Service
from sampan.api.types.node_v1 import RuntimeClass
from sampan.kubelet.agent.admission_checks import NodeAdmission
from sampan.kubelet.agent.config import AgentConfig
from sampan.kubelet.agent.container_killer import ContainerKiller, LifecycleHookRunner
from sampan.kubelet.agent.eviction.manager import EvictionManager, PodEvictor, has_separate_image_disk
from sampan.kubelet.agent.eviction.rules import EVICTED
from sampan.kubelet.agent.garbage_collection import (
    ContainerGarbageCollector,
    Housekeeping,
    ImageGarbageCollector,
    OrphanCollector,
)
from sampan.kubelet.agent.image_manager import ImageManager
from sampan.kubelet.agent.image_pull_records import ImagePullRecords
from sampan.kubelet.agent.machine import MachineFacts
from sampan.kubelet.agent.node_plugins import NodePlugins
from sampan.kubelet.agent.node_status_updater import NodeStatusUpdater
from sampan.kubelet.agent.pod_files import measure_pod_files
from sampan.kubelet.agent.pod_resizer import PodResizer
from sampan.kubelet.agent.pod_sources import ApiPodSource, StaticPodSources
from sampan.kubelet.agent.pods_api import PodsApi
from sampan.kubelet.agent.real_pod_lifecycle import PodLifecycleComponents, RealPodLifecycle
from sampan.kubelet.agent.services import KubeletServices
from sampan.kubelet.agent.shutdown.node_shutdown import NodeShutdownManager
from sampan.kubelet.agent.static_pods import MirrorPods, StaticPodManager
from sampan.kubelet.agent.termination_messages import TerminationMessages
from sampan.kubelet.container_config.builder import ContainerConfigBuilder, NodeSettings
from sampan.kubelet.container_config.memory_qos import MemoryQos
from sampan.kubelet.container_config.network_files import DnsConfig, read_resolv_conf
from sampan.kubelet.devices import DeviceManager
from sampan.kubelet.devices.dra import DraManager
from sampan.kubelet.devices.dra.manager import TYPE as DYNAMIC
from sampan.kubelet.devices.manager import TYPE as DEVICES
from sampan.kubelet.devices.pod_resources import PodResources
from sampan.kubelet.node_status import ConditionValue, NodeMachine
from sampan.kubelet.plugin_registry import PluginRegistry
from sampan.kubelet.pod_events import PodTrace
from sampan.kubelet.pod_status import PodFailure
from sampan.kubelet.probes import ProbeManager
from sampan.kubelet.records import ACTIVE, ENDED_STATES, PodSyncState
from sampan.kubelet.status_manager import StatusManager
from sampan.kubelet.sync_loop import SyncLoop
from sampan.kubelet.volumes import VolumeCallbacks, VolumeConfig, VolumeManager
from sampan.kubelet.volumes.csi.registration import TYPE as CSI
from sampan.machinery.events import WARNING
from sampan.machinery.telemetry.metrics import Metrics
from sampan.runtimes.contract import RuntimeFailure

_MOUNT_TIMEOUT_S = 5.0
"""How long a worker waits for a pod's volumes; the pod is synced again when they are mounted later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletComponents:
    """All parts of a kubelet."""

    services: KubeletServices
    statuses: StatusManager
    sync_loop: SyncLoop
    static_pod_sources: StaticPodSources
    mirrors: MirrorPods
    api_pod_source: ApiPodSource
    housekeeping: Housekeeping
    status_updater: NodeStatusUpdater
    volumes: VolumeManager
    plugins: NodePlugins
    probes: ProbeManager
    probe_metrics: Metrics
    """Metrics of the probes, which have an endpoint of their own."""
    killer: ContainerKiller
    eviction: EvictionManager
    shutdown: NodeShutdownManager
    pods_api: PodsApi | None
    """The pods API on a socket; None if the feature is disabled."""
    image_collector: ImageGarbageCollector


def build_components(services: KubeletServices) -> KubeletComponents:
    config, clock, records, node = services.config, services.clock, services.records, services.node
    workers = config.kubelet.workers
    trace = PodTrace(recorder=services.recorder, node=config.name)
    pods_api = _build_pods_api(services)
    statuses = StatusManager(
        records=records,
        clock=clock,
        activity=services.activity,
        workers=workers,
        trace=trace,
        on_change=pods_api.notify if pods_api is not None else lambda: None,
    )
    evictor = PodEvictor(node=node, records=records, queue=services.queue, events=services.events, clock=clock)
    volumes = _build_volumes(services, evictor)
    plugins = _build_plugins(services, volumes)
    image_collector = _build_image_collector(services)
    eviction = _build_eviction(services, volumes, evictor, image_collector)
    shutdown = NodeShutdownManager(
        config=config,
        node=node,
        records=records,
        queue=services.queue,
        events=services.events,
        clock=clock,
        status_due=services.status_due,
    )
    mirrors = MirrorPods(node=node, records=records, statuses=statuses, clock=clock)
    probe_metrics = Metrics()
    probes = _build_probes(services, probe_metrics, trace)
    hooks = LifecycleHookRunner(runtime=services.runtime, clock=clock)
    killer = ContainerKiller(runtime=services.runtime, hooks=hooks, events=services.events, trace=trace, clock=clock)
    container_configs = _build_container_configs(services)
    lifecycle = RealPodLifecycle(
        PodLifecycleComponents(
            runtime=services.runtime,
            container_configs=container_configs,
            images=_build_images(services),
            volumes=volumes,
            cgroups=services.cgroups,
            objects=services.objects,
            probes=probes,
            hooks=hooks,
            messages=TerminationMessages(container_configs=container_configs, runtime=services.runtime),
            events=services.events,
            resizer=PodResizer(
                runtime=services.runtime,
                cgroups=services.cgroups,
                events=services.events,
                node_memory=services.facts.memory_bytes,
            ),
            plugins=plugins,
            admission=NodeAdmission(config=config, node=node, shutdown=shutdown, eviction=eviction),
            mirrors=mirrors,
            killer=killer,
            trace=trace,
        )
    )
    sync_loop = SyncLoop(
        lifecycle=lifecycle,
        records=records,
        queue=services.queue,
        statuses=statuses,
        events=services.events,
        clock=clock,
        workers=workers,
        longest_pause_s=config.kubelet.longest_pause_s,
        metrics=services.metrics,
    )
    static_pods = StaticPodManager(node=node, records=records, sync_loop=sync_loop, mirrors=mirrors)
    static_pod_sources = StaticPodSources(config=config, clock=clock, update=static_pods.update)
    housekeeping = _build_housekeeping(services, volumes, plugins, static_pod_sources)
    return KubeletComponents(
        services=services,
        statuses=statuses,
        sync_loop=sync_loop,
        static_pod_sources=static_pod_sources,
        mirrors=mirrors,
        api_pod_source=ApiPodSource(
            node=node,
            sync_loop=sync_loop,
            mirrors=mirrors,
            housekeeping=housekeeping,
            informers=services.informers,
        ),
        housekeeping=housekeeping,
        status_updater=_build_status_updater(services, plugins, eviction, shutdown),
        volumes=volumes,
        plugins=plugins,
        probes=probes,
        probe_metrics=probe_metrics,
        killer=killer,
        eviction=eviction,
        shutdown=shutdown,
        pods_api=pods_api,
        image_collector=image_collector,
    )


def _build_pods_api(services: KubeletServices) -> PodsApi | None:
    if not services.config.kubelet.feature_gates.is_enabled("PodsAPI"):
        return None
    return PodsApi(
        root=services.config.root,
        pods=lambda: [record.pod_with_status for record in services.records.values()],
        clock=services.clock,
    )


def _build_status_updater(
    services: KubeletServices, plugins: NodePlugins, eviction: EvictionManager, shutdown: NodeShutdownManager
) -> NodeStatusUpdater:
    def node_conditions() -> dict[str, ConditionValue]:
        return shutdown.conditions() or eviction.conditions()

    return NodeStatusUpdater(
        config=services.config,
        record=services.node,
        clock=services.clock,
        events=services.events,
        due=services.status_due,
        node_conditions=node_conditions,
        device_capacity=plugins.capacity,
    )


# -- volumes, plugins and images ------------------------------------------------------------------------------------


def _build_volumes(services: KubeletServices, evictor: PodEvictor) -> VolumeManager:
    node, events = services.node, services.events
    config = VolumeConfig(
        root=services.config.root,
        node_name=services.config.name,
        feature_gates=services.config.kubelet.feature_gates,
        allocatable=node.machine.allocatable or node.machine.capacity,
        mount_timeout_s=_MOUNT_TIMEOUT_S,
    )
    callbacks = VolumeCallbacks(
        warn=services.warn_pod,
        on_ready=services.queue.request_sync,
        on_excess=lambda pod, message: evictor.evict(pod, PodFailure(reason=EVICTED, message=message)),
        record_event=lambda subject, type, reason, message: events.record_event(node, subject, type, reason, message),
        supports_recursive_read_only=lambda: _has_recursive_read_only_mounts(node.machine),
    )
    return VolumeManager(
        config=config,
        client=services.client,
        informers=services.informers,
        objects=services.objects,
        clock=services.clock,
        callbacks=callbacks,
        activity=services.activity,
        metrics=services.metrics,
    )


def _has_recursive_read_only_mounts(machine: NodeMachine) -> bool:
    features = next((handler.features for handler in machine.handlers if not handler.name), None)
    return features is not None and bool(features.recursiveReadOnlyMounts)


def _build_plugins(services: KubeletServices, volumes: VolumeManager) -> NodePlugins:
    config, clock, request_sync = services.config, services.clock, services.queue.request_sync
    devices = DeviceManager(root=config.root, clock=clock, on_change=services.status_due.set, look_at=request_sync)
    dynamic = DraManager(
        root=config.root, node_name=config.name, client=services.client, clock=clock, look_at=request_sync
    )
    registry = PluginRegistry(
        directory=config.root / "plugins_registry",
        handlers={CSI: volumes.csi_handler, DEVICES: devices, DYNAMIC: dynamic},
        clock=clock,
    )
    records = services.records
    resources = PodResources(
        root=config.root,
        devices=devices,
        claims=dynamic.claims,
        clock=clock,
        pods=lambda: [record.pod for record in records.values() if record.state not in ENDED_STATES],
    )
    return NodePlugins(registry=registry, devices=devices, dynamic=dynamic, resources=resources)


def _build_images(services: KubeletServices) -> ImageManager:
    config = services.config
    return ImageManager(
        runtime=services.runtime,
        objects=services.objects,
        events=services.events,
        clock=services.clock,
        max_parallel_pulls=1 if config.serializes_pulls else config.max_parallel_pulls,
        pulled=ImagePullRecords(config.root),
        policy=config.image_policy,
        listed=config.listed_images,
    )


# -- containers ------------------------------------------------------------------------------------------------------


def _build_probes(services: KubeletServices, metrics: Metrics, trace: PodTrace) -> ProbeManager:
    node, events = services.node, services.events
    return ProbeManager(
        runtime=services.runtime,
        clock=services.clock,
        on_change=services.queue.request_sync,
        event=lambda pod, container, reason, message: events.record_container_event(
            node, pod, container, WARNING, reason, message
        ),
        note=lambda pod, action, outcome, took_s: trace.note(pod, action, outcome, took_s=took_s),
        activity=services.activity,
        metrics=metrics,
        gates=services.config.kubelet.feature_gates,
    )


def _build_container_configs(services: KubeletServices) -> ContainerConfigBuilder:
    informers = services.informers
    runtime_classes = informers.for_kind(RuntimeClass).lister
    return ContainerConfigBuilder(
        config=_node_settings(services.config, services.node.machine, services.facts, services.cgroups.memory_qos),
        objects=services.objects,
        services=informers.for_kind(Service).lister,
        cgroup_parent=services.cgroups.parent,
        handler=lambda pod: _runtime_handler(pod, runtime_classes.get(pod.spec.runtimeClassName or "")),
        warn=services.warn_pod,
    )


def _local_servers(machine: NodeMachine) -> list[str]:
    """Return a loopback address for each address of the node."""
    return ["::1" if ":" in address else "127.0.0.1" for address in (machine.address, *machine.more_addresses)]


def _node_settings(
    config: AgentConfig, machine: NodeMachine, facts: MachineFacts, memory_qos: MemoryQos | None
) -> NodeSettings:
    try:
        resolv = read_resolv_conf(config.resolv_conf.read_text())
    except OSError:
        resolv = read_resolv_conf("")
    return NodeSettings(
        root=config.root,
        logs=config.logs,
        node_name=config.name,
        host_name=config.host_name,
        host_ips=(machine.address, *machine.more_addresses),
        node_memory=facts.memory_bytes,
        memory_qos=memory_qos,
        allocatable=machine.allocatable or {},
        default_sysctls=config.default_pod_sysctls,
        has_seccomp=config.has_default_seccomp,
        loopback_services=config.loopback_services,
        dns=DnsConfig(
            node=resolv,
            local_servers=_local_servers(machine) if config.resolv_conf == Path() else (),
            cluster_servers=config.cluster_dns,
            cluster_domain=config.cluster_domain,
        ),
    )


def _runtime_handler(pod: Pod, runtime_class: RuntimeClass | None) -> str:
    name = pod.spec.runtimeClassName
    if not name:
        return ""
    if runtime_class is None:
        text = f'failed to get sandbox runtime: runtimeclass.node.k8s.io "{name}" not found'
        raise RuntimeFailure("FailedCreatePodSandBox", text)
    return runtime_class.handler


# -- eviction and garbage collection ---------------------------------------------------------------------------------


def _build_image_collector(services: KubeletServices) -> ImageGarbageCollector:
    runtime, records = services.runtime, services.records

    def images_in_use() -> set[str]:
        reports = [runtime.pod_report(record.pod) for record in records.values()]
        containers = [container for report in reports for container in report.containers]
        return {name for container in containers for name in (container.image, container.image_ref)}

    return ImageGarbageCollector(
        config=services.config,
        runtime=runtime,
        clock=services.clock,
        in_use=images_in_use,
        record_event=services.warn_node,
        forget=ImagePullRecords(services.config.root).prune,
    )


def _build_eviction(
    services: KubeletServices, volumes: VolumeManager, evictor: PodEvictor, image_collector: ImageGarbageCollector
) -> EvictionManager:
    config, records = services.config, services.records
    container_collector = ContainerGarbageCollector(runtime=services.runtime, records=records)

    async def reclaim_disk(signal: str) -> None:
        """Free disk space. If images have their own file system, removing them helps only when that one is full."""
        if signal.startswith("imagefs") or not has_separate_image_disk(config.root, config.images):
            await container_collector.remove_unused()
            await image_collector.remove_unused()

    def has_terminated(pod: Pod) -> bool:
        record = records.get(pod.metadata.uid)
        return record is None or record.state is PodSyncState.FINISHED

    return EvictionManager(
        config=config,
        runtime=services.runtime,
        clock=services.clock,
        pods=lambda: [record.pod for record in records.values() if record.state in ACTIVE],
        volumes=volumes.usage,
        files=lambda pod: measure_pod_files(config.root / "pods" / pod.metadata.uid),
        evict=evictor.evict,
        record_event=lambda message: services.warn_node("EvictionThresholdMet", message),
        reclaim_disk=reclaim_disk,
        on_change=services.status_due.set,
        has_terminated=has_terminated,
        metrics=services.metrics,
    )


def _build_housekeeping(
    services: KubeletServices, volumes: VolumeManager, plugins: NodePlugins, sources: StaticPodSources
) -> Housekeeping:
    config = services.config
    return Housekeeping(
        config=config,
        records=services.records,
        queue=services.queue,
        clock=services.clock,
        orphans=OrphanCollector(
            runtime=services.runtime,
            volumes=volumes,
            cgroups=services.cgroups,
            plugins=plugins,
            root=config.root,
            logs=config.logs,
        ),
        is_complete=lambda: sources.are_known,
        metrics=services.metrics,
    )
