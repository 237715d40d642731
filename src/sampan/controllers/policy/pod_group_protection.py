"""podgroup-protection-controller, which keeps a deleted PodGroup while one of its pods is active
(`pkg/controller/scheduling/podgroupprotection`)."""

from collections.abc import Hashable, Iterable

from sampan.api.semantics.pods import is_terminal
from sampan.api.types.core_v1 import Pod
from sampan.api.types.scheduling_v1beta1 import PodGroup
from sampan.controllers.storage.protection import is_deletion_candidate, release
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

FINALIZER = "scheduling.k8s.io/podgroup-protection"


def _by_group(pod: Pod) -> Iterable[Hashable]:
    """Return the group of a pod, of active and of terminated ones."""
    group = pod.spec.schedulingGroup
    return (NamespacedName(pod.metadata.namespace, group.podGroupName),) if group and group.podGroupName else ()


def _by_group_of_active_pod(pod: Pod) -> Iterable[Hashable]:
    return () if is_terminal(pod) else _by_group(pod)


class PodGroupProtectionController:
    name = "podgroup-protection-controller"

    def __init__(self, *, client: Client, informers: InformerFactory) -> None:
        self._groups, self._known = client.for_kind(PodGroup), informers.for_kind(PodGroup).lister
        self._pods = informers.for_kind(Pod).lister
        self._pods.add_index(_by_group_of_active_pod)
        self.watches = (
            Watch(resource_of(PodGroup), lambda group: (key_of(group),)),
            Watch(resource_of(Pod), _by_group),
        )

    async def reconcile(self, key: NamespacedName) -> None:
        group = self._known.get_by_key(key)
        if group is None or not is_deletion_candidate(group, FINALIZER):
            return
        if not self._pods.find(_by_group_of_active_pod, key):
            await release(self._groups, group, FINALIZER)
