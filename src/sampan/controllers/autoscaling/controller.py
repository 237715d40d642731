"""The control loop of horizontal-pod-autoscaler-controller.

It evaluates each autoscaler once per sync period (15 s by default) and scales its target. A new autoscaler is evaluated
at once, and so is one whose spec has changed, if the gate HPAGeneration is on.
"""

import logging

import msgspec

from sampan.api.selectors.labels import Selector
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscaler
from sampan.api.types.core_v1 import Pod
from sampan.controllers.autoscaling.behavior import Recommendations
from sampan.controllers.autoscaling.metrics import ApiMetrics, MetricsSource
from sampan.controllers.autoscaling.reconciler import (
    AutoscalerConfig,
    AutoscalerDependencies,
    AutoscalerReconciler,
    AutoscalerState,
)
from sampan.controllers.autoscaling.replicas import PodWarmup
from sampan.controllers.autoscaling.target import ScaleKinds
from sampan.controllers.descriptor import ControllerContext
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.control_loop.own_writes import OwnWrites
from sampan.machinery.copies import copy_of
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

log = logging.getLogger(__name__)


class HorizontalPodAutoscalerController:
    name = "horizontal-pod-autoscaler-controller"

    def __init__(
        self,
        *,
        client: Client,
        informers: InformerFactory,
        clock: Clock,
        events: EventRecorder,
        source: MetricsSource,
        config: AutoscalerConfig,
    ) -> None:
        self._pods, self._clock, self._events, self._config = informers.for_kind(Pod).lister, clock, events, config
        self._means = AutoscalerDependencies(
            client=client,
            kinds=ScaleKinds(client),
            pods=self._pods,
            events=events,
            source=source,
            config=config,
            rivals=self._list_autoscalers_sharing_pods,
        )
        self._autoscalers = informers.for_kind(HorizontalPodAutoscaler).lister
        self._writes = client.for_kind(HorizontalPodAutoscaler)
        self._memories: dict[NamespacedName, AutoscalerState] = {}
        self._own_writes = OwnWrites()
        if config.skips_stale_autoscalers:
            self._own_writes.follow(informers.for_kind(HorizontalPodAutoscaler))
        self.watches = (
            Watch(resource_of(HorizontalPodAutoscaler), lambda hpa: [key_of(hpa)]),
            Watch(resource_of(Pod)),
        )

    async def reconcile(self, key: NamespacedName) -> float | None:
        shared = self._autoscalers.get_by_key(key)
        if shared is None:
            self._memories.pop(key, None)
            return None
        if self._own_writes.is_stale(shared):
            return None  # The watch event of the own write triggers another sync.
        now, memory = self._clock.monotonic(), self._memory(key)
        generation = shared.metadata.generation if self._config.has_generation else None
        if now < memory.due and memory.generation == generation:
            return memory.due - now
        memory.due, memory.generation = now + self._config.period_s, generation
        hpa = msgspec.structs.replace(shared, status=copy_of(shared.status))
        await AutoscalerReconciler(
            means=self._means, hpa=hpa, memory=memory, now=self._clock.now(), monotonic=now
        ).run()
        if hpa.status != shared.status:
            await self._write(hpa)
        return self._config.period_s

    def _list_autoscalers_sharing_pods(self, namespace: str, selector: Selector) -> list[NamespacedName]:
        """Return at most two autoscalers of the namespace that select a pod which the specified selector matches.

        The gate HPAOptimizedSelectorStore changes nothing: pods with equal labels are compared once in any case.
        """
        rivals = {key: entry.selector for key, entry in self._memories.items() if key.namespace == namespace}
        if len(rivals) < 2:
            return list(rivals)
        label_sets = {tuple(sorted(pod.metadata.labels.items())) for pod in self._pods.list(namespace, selector)}
        selecting: list[NamespacedName] = []
        for labels in map(dict, sorted(label_sets)):
            new = [key for key, entry in sorted(rivals.items()) if key not in selecting and entry.matches(labels)]
            selecting += new
            if len(selecting) > 1:
                break
        return selecting[:2]

    async def _write(self, hpa: HorizontalPodAutoscaler) -> None:
        try:
            written = await self._writes.update_status(hpa)
        except (errors.ApiError, ConnectionFailed) as error:
            self._events.event(hpa, WARNING, "FailedUpdateStatus", str(error))
            log.debug("cannot update the status of HorizontalPodAutoscaler %s: %s", key_of(hpa), error)
            return
        if self._config.skips_stale_autoscalers:
            self._own_writes.record_write(written)

    def _memory(self, key: NamespacedName) -> AutoscalerState:
        memory = self._memories.get(key)
        if memory is None:
            memory = self._memories[key] = AutoscalerState(Recommendations(self._config.downscale_window_s))
        return memory


def make(context: ControllerContext) -> HorizontalPodAutoscalerController:
    client, config = context.client, context.config
    gates = config.feature_gates
    return context.build(
        HorizontalPodAutoscalerController,
        client=client,
        source=config.metrics or ApiMetrics(client),
        config=AutoscalerConfig(
            period_s=config.horizontal_pod_autoscaler_sync_period_s,
            downscale_window_s=config.horizontal_pod_autoscaler_downscale_stabilization_s,
            tolerance=config.horizontal_pod_autoscaler_tolerance,
            warmup=PodWarmup(
                config.horizontal_pod_autoscaler_cpu_initialization_period_s,
                config.horizontal_pod_autoscaler_initial_readiness_delay_s,
            ),
            has_generation=gates.is_enabled("HPAGeneration"),
            scales_to_zero=gates.is_enabled("HPAScaleToZero"),
            skips_stale_autoscalers=gates.is_enabled("StaleControllerConsistencyHPA"),
        ),
    )
