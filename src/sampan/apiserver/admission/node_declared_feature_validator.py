"""NodeDeclaredFeatureValidator: rejects pod updates that need features which the pod's node does not declare."""

from sampan.api.resources.resource import Resource
from sampan.api.semantics.pods import is_sidecar
from sampan.api.types.core_v1 import Node, Pod
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, is_pod

POD_LEVEL, INIT_CONTAINERS = "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"


class NodeDeclaredFeatureValidator:
    name = "NodeDeclaredFeatureValidator"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return is_pod(resource) and operation == "UPDATE" and subresource in ("", "resize")

    async def validate(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        node_name, old = pod.spec.nodeName, attributes.old
        if not node_name or pod.metadata.generation == old.metadata.generation:
            return
        features = find_required_features(pod, old)
        if not features:
            return
        node: Node | None = await lookup.find(attributes.registry.open_store_of("", "v1", "Node"), "", node_name)
        if node is None:
            raise attributes.forbidden(f'node "{node_name}" not found')
        if missing := [feature for feature in features if feature not in node.status.declaredFeatures]:
            listed = ", ".join(missing)
            raise attributes.forbidden(
                f'pod update requires features {listed} which are not available on node "{node_name}"'
            )


def find_required_features(pod: Pod, old: Pod) -> list[str]:
    """Return the features that a node must declare for the update."""
    features = [POD_LEVEL] if pod.spec.resources != old.spec.resources else []
    pairs = zip(old.spec.initContainers, pod.spec.initContainers, strict=False)
    if any(was.resources != now.resources for was, now in pairs if not is_sidecar(was)):
        features.append(INIT_CONTAINERS)
    return features
