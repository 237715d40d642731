"""cloud-node-lifecycle-controller, which deletes nodes whose instance no longer exists at the cloud provider.

Only nodes that are not ready are checked. A node whose instance is shut down is tainted until it is ready again.
"""

import logging

from sampan.api.semantics.conditions import TRUE
from sampan.api.semantics.taints import NO_SCHEDULE, SHUTDOWN, UNINITIALIZED
from sampan.api.types.core_v1 import Node, ObjectReference
from sampan.controllers.cloud import Instances
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.fan_out import try_each
from sampan.controllers.nodes.health import ready_status
from sampan.controllers.nodes.taints import TaintWriter, has_taint
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.events import NORMAL, EventRecorder
from sampan.machinery.informer import InformerFactory

log = logging.getLogger(__name__)

_LOOK = ""


class CloudNodeLifecycleController:
    name = "cloud-node-lifecycle-controller"
    initial_keys = (_LOOK,)

    def __init__(
        self,
        *,
        client: Client,
        informers: InformerFactory,
        events: EventRecorder,
        instances: Instances,
        clock: Clock,
        period_s: float,
    ) -> None:
        self._client, self._events, self._instances, self._period_s = client.for_kind(Node), events, instances, period_s
        self._nodes = informers.for_kind(Node).lister
        self._taint_writer = TaintWriter(client=client, clock=clock)
        self.watches = (Watch(resource_of(Node)),)

    async def reconcile(self, key: str) -> float:
        for node, error in await try_each(self._nodes, self._sync_node):
            name = node.metadata.name
            log.warning("%s failed for node %s: %s; retrying in %g s", self.name, name, error, self._period_s)
        return self._period_s

    async def _sync_node(self, node: Node) -> None:
        if ready_status(node) == TRUE:
            await self._taint_writer.change(node, NO_SCHEDULE, remove=(SHUTDOWN,))
        elif any(taint.key == UNINITIALIZED for taint in node.spec.taints):
            return  # The provider may not know the node yet.
        elif not await self._instances.exists(node):
            await self._delete(node)
        elif await self._instances.is_shut_down(node) and not has_taint(node.spec.taints, SHUTDOWN, NO_SCHEDULE):
            await self._taint_writer.change(node, NO_SCHEDULE, add=(SHUTDOWN,))

    async def _delete(self, node: Node) -> None:
        name, uid = node.metadata.name, node.metadata.uid
        reference = ObjectReference(kind="Node", apiVersion="v1", name=name, uid=uid)
        message = f"Deleting node {name} because it does not exist in the cloud provider"
        self._events.event(reference, NORMAL, "DeletingNode", message)
        try:
            await self._client.delete(name, options=DeleteParameters(uid=uid))
        except errors.NotFound:
            return


def make(context: ControllerContext) -> CloudNodeLifecycleController | None:
    config = context.config
    instances = config.cloud.instances if config.cloud is not None else None
    if instances is None:
        return None
    return context.build(CloudNodeLifecycleController, instances=instances, period_s=config.node_monitor_period_s)
