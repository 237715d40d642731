"""DefaultTolerationSeconds: pods tolerate not-ready and unreachable nodes for five minutes, or for as long as the flags
of the API server say, unless they define otherwise."""

from dataclasses import dataclass

from sampan.api.resources.resource import Resource
from sampan.api.semantics.taints import NOT_READY, UNREACHABLE
from sampan.api.types.core_v1 import Pod, Toleration
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, is_pod_write


@dataclass(frozen=True, slots=True, kw_only=True)
class TolerationDefaults:
    """How many seconds a pod without such tolerations of its own stays on a not-ready or unreachable node; 0 or less
    evicts it at once."""

    not_ready_s: int = 300
    unreachable_s: int = 300


class DefaultTolerationSeconds:
    name = "DefaultTolerationSeconds"

    def __init__(self, defaults: TolerationDefaults) -> None:
        self._seconds = {NOT_READY: defaults.not_ready_s, UNREACHABLE: defaults.unreachable_s}

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return is_pod_write(operation, resource, subresource)

    async def admit(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        pod.spec.tolerations += [
            Toleration(key=taint, operator="Exists", effect="NoExecute", tolerationSeconds=seconds)
            for taint, seconds in self._seconds.items()
            if not any(_covers_taint(toleration, taint) for toleration in pod.spec.tolerations)
        ]


def _covers_taint(toleration: Toleration, taint: str) -> bool:
    """Whether the toleration applies to the taint, or to all taints."""
    return toleration.key in (taint, "") and toleration.effect in ("NoExecute", "")
