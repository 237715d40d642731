"""DefaultBinder: binds the pod by creating its `binding` subresource."""

from __future__ import annotations

from sampan.api.types.core_v1 import Binding, ObjectReference, Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.scheduler.framework.contract import Code, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle


class DefaultBinder:
    name = "DefaultBinder"
    scope = PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        self._pods = handle.client.for_kind(Pod)

    async def bind(self, cycle: CycleState, node: str) -> Status | None:
        meta = cycle.pod.metadata
        binding = Binding(
            metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid),
            target=ObjectReference(kind="Node", name=node),
        )
        try:
            await self._pods.create_subresource("binding", meta.name, binding, meta.namespace)
        except (errors.ApiError, ConnectionFailed) as failure:
            return Status(Code.ERROR, (str(failure),))
        return None
