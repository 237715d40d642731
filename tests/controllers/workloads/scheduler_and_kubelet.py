"""Functions in place of scheduler and kubelet: they bind pods, set them running, and remove deleted pods."""

from collections.abc import Sequence
from typing import Any

from sampan.api.types.core_v1 import Binding, ObjectReference, Pod, PodCondition
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.machinery.client.options import DeleteParameters, Selection
from sampan.machinery.copies import copy_of
from tests.controllers.cluster import Cluster


async def pods_of(c: Cluster, labels: str = "", namespace: str = "default") -> Sequence[Pod]:
    await c.clock.settle()
    return (await c.client.for_kind(Pod).list_all(Selection(namespace=namespace, labels=labels))).items


async def active_of(c: Cluster, labels: str = "") -> Sequence[Pod]:
    return [pod for pod in await pods_of(c, labels) if pod.metadata.deletionTimestamp is None]


async def bind(c: Cluster, pod: Pod, node: str = "n1") -> Pod:
    meta = ObjectMeta(name=pod.metadata.name, namespace=pod.metadata.namespace)
    binding = Binding(metadata=meta, target=ObjectReference(kind="Node", name=node))
    await c.client.for_kind(Pod).create_subresource("binding", pod.metadata.name, binding, pod.metadata.namespace)
    return await c.client.for_kind(Pod).get(pod.metadata.name, pod.metadata.namespace)


async def set_state(c: Cluster, pod: Pod, phase: str, *, is_ready: bool) -> None:
    pods = c.client.for_kind(Pod)
    changed = copy_of(await pods.get(pod.metadata.name, pod.metadata.namespace))
    changed.status.phase = phase
    others = [condition for condition in changed.status.conditions if condition.type != "Ready"]
    stamp = times.format_time(c.clock.now())
    ready = PodCondition(type="Ready", status="True" if is_ready else "False", lastTransitionTime=stamp)
    changed.status.conditions = [*others, ready]
    await pods.update_status(changed)


async def run(c: Cluster, pod: Pod, node: str = "n1") -> None:
    """Bind the pod, and set it running and ready."""
    await bind(c, pod, node)
    await set_state(c, pod, "Running", is_ready=True)


async def end(c: Cluster, pod: Pod) -> None:
    """Delete the pod with grace period 0, as a kubelet does once its containers have stopped."""
    await c.client.for_kind(Pod).delete(
        pod.metadata.name, pod.metadata.namespace, options=DeleteParameters(grace_period_s=0, uid=pod.metadata.uid)
    )


async def step_pods(c: Cluster, labels: str = "") -> bool:
    """Run each unbound pod and remove each deleted pod once; return whether there was any."""
    changed_any = False
    for pod in await pods_of(c, labels):
        if pod.metadata.deletionTimestamp is not None:
            await end(c, pod)
        elif not pod.spec.nodeName:
            await run(c, pod)
        else:
            continue
        changed_any = True
    return changed_any


async def settle_pods(c: Cluster, labels: str = "") -> None:
    """Repeat `step_pods` until no pod changes."""
    while await step_pods(c, labels):
        await c.clock.settle()


def counts(status: Any, *names: str) -> tuple[int, ...]:
    return tuple(getattr(status, name) for name in names)
