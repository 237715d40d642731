"""The pods that a node may create: mirror pods without references to other API objects. Pure."""

from __future__ import annotations

from sampan.api.go_compat import gotext
from sampan.api.semantics.pod_references import CONFIG_MIRROR, is_mirror_pod
from sampan.api.types.core_v1 import Pod


def find_mirror_pod_error(pod: Pod, node: str) -> str:
    """Return why the node may not create the pod; "" if it may. The UID of the owner reference is not checked here."""
    own = gotext.quote(node)
    if not is_mirror_pod(pod):
        return f"pod does not have {gotext.quote(CONFIG_MIRROR)} annotation, node {own} can only create mirror pods"
    if pod.spec.nodeName != node:
        return f"node {own} can only create pods with spec.nodeName set to itself"
    return _find_owner_error(pod, node)


def _find_owner_error(pod: Pod, node: str) -> str:
    start, owners = f"node {gotext.quote(node)}", pod.metadata.ownerReferences
    if len(owners) > 1:
        return f"{start} can only create pods with a single owner reference set to itself"
    if not owners or (owners[0].apiVersion, owners[0].kind, owners[0].name) != ("v1", "Node", node):
        return f"{start} can only create pods with an owner reference set to itself"
    if not owners[0].controller:
        return f"{start} can only create pods with a controller owner reference set to itself"
    if owners[0].blockOwnerDeletion:
        return f"{start} must not set blockOwnerDeletion on an owner reference"
    return ""
