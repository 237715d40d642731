"""DefaultTolerationSeconds: pods tolerate not-ready and unreachable nodes for five minutes unless they define
otherwise."""

from sampan.api.resource import Resource
from sampan.api.semantics.taints import NOT_READY, UNREACHABLE
from sampan.api.types.core_v1 import Pod, Toleration
from sampan.apiserver.admission.contract import AdmissionAttributes, Operation

_TAINTS = (NOT_READY, UNREACHABLE)
_STAY_S = 300


class DefaultTolerationSeconds:
    name = "DefaultTolerationSeconds"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_pod = resource.plural == "pods" and resource.group == ""
        return is_pod and operation in ("CREATE", "UPDATE") and not subresource

    async def admit(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        missing = [
            taint for taint in _TAINTS if not any(_says(toleration, taint) for toleration in pod.spec.tolerations)
        ]
        pod.spec.tolerations += [
            Toleration(key=taint, operator="Exists", effect="NoExecute", tolerationSeconds=_STAY_S) for taint in missing
        ]


def _says(toleration: Toleration, taint: str) -> bool:
    """Whether the toleration applies to the taint, or to all taints."""
    return toleration.key in (taint, "") and toleration.effect in ("NoExecute", "")
