"""DefaultBinder: binds the pod by creating its `binding` subresource. Transient errors of the server are retried."""

from __future__ import annotations

from sampan.api.types.core_v1 import Binding, ObjectReference, Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.scheduler.framework.contract import Code, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle

_RETRY_DELAYS_S = (0.01, 0.05, 0.25)
"""The delays between the attempts after transient errors; the client itself retries when it cannot connect."""


class DefaultBinder:
    name = "DefaultBinder"
    scope = PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        self._pods, self._clock = handle.client.for_kind(Pod), handle.clock

    async def bind(self, cycle: CycleState, node: str) -> Status | None:
        meta = cycle.pod.metadata
        binding = Binding(
            metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid),
            target=ObjectReference(kind="Node", name=node),
        )
        for delay_s in (*_RETRY_DELAYS_S, None):
            try:
                await self._pods.create_subresource("binding", meta.name, binding, meta.namespace)
                return None
            except (errors.ApiError, ConnectionFailed) as failure:
                if delay_s is None or not isinstance(failure, errors.InternalError | errors.ServiceUnavailable):
                    return Status(Code.ERROR, (str(failure),))
            await self._clock.sleep(delay_s)
        return None
