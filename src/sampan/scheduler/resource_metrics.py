"""Resource requests and limits of each pod as metrics, for capacity planning (`/metrics/resources`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from sampan.api.pod_amounts import Amounts, effective_limits, effective_requests
from sampan.api.types.core_v1 import Pod, PodSpec
from sampan.machinery.metrics import Metrics, Sample

RESOURCES = "/metrics/resources"
_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}
_ENDED = ("Succeeded", "Failed")
_TURN_S = 0.01
_FAMILIES: tuple[tuple[str, str, Callable[[PodSpec], Amounts]], ...] = (
    ("kube_pod_resource_request", "Resources requested by pods, by pod and resource.", effective_requests),
    ("kube_pod_resource_limit", "Resource limits of pods, by pod and resource.", effective_limits),
)


async def resource_text(pods: Iterable[Pod]) -> str:
    """Return the metrics in text format, yielding to other tasks while collecting."""
    samples: dict[str, list[Sample]] = {name: [] for name, _, _ in _FAMILIES}
    began = time.perf_counter()
    for pod in pods:
        if pod.status.phase not in _ENDED:
            for name, _, amounts in _FAMILIES:
                samples[name] += _of(pod, amounts(pod.spec))
        if time.perf_counter() - began > _TURN_S:
            await asyncio.sleep(0)
            began = time.perf_counter()
    return await asyncio.to_thread(_written, samples)


def _of(pod: Pod, amounts: Amounts) -> Iterator[Sample]:
    spec, meta = pod.spec, pod.metadata
    priority = "" if spec.priority is None else str(spec.priority)
    for resource, amount in amounts.items():
        if value := float(amount.value() if resource != "cpu" else amount.milli_value() / 1000):
            labels = (meta.namespace, meta.name, spec.nodeName, spec.schedulerName, priority, resource, _unit(resource))
            yield labels, value


def _unit(resource: str) -> str:
    if resource.startswith("hugepages-"):
        return "bytes"
    return _UNITS.get(resource, "integer" if resource.startswith("attachable-volumes-") else "")


def _written(samples: dict[str, list[Sample]]) -> str:
    metrics = Metrics()
    for name, description, _ in _FAMILIES:
        metrics.function(name, description, partial(samples.__getitem__, name), _LABELS)
    return metrics.text()
