"""The plug-ins that are on by default, in the real server's order."""

from collections.abc import Callable, Collection
from typing import Final

from sampan.apiserver.admission.chain import Plugin
from sampan.apiserver.admission.default_ingress_class import DefaultIngressClass
from sampan.apiserver.admission.default_storage_class import DefaultStorageClass
from sampan.apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds
from sampan.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from sampan.apiserver.admission.persistent_volume_claim_resize import PersistentVolumeClaimResize
from sampan.apiserver.admission.pod_resize import PodResizeValidator
from sampan.apiserver.admission.pod_topology_labels import PodTopologyLabels
from sampan.apiserver.admission.priority import Priority
from sampan.apiserver.admission.runtime_class import RuntimeClassAdmission
from sampan.apiserver.admission.service_account import ServiceAccountAdmission
from sampan.apiserver.admission.storage_object_in_use_protection import StorageObjectInUseProtection
from sampan.apiserver.admission.taint_nodes_by_condition import TaintNodesByCondition

PLUGINS: Final[dict[str, Callable[[], Plugin]]] = {
    "NamespaceLifecycle": NamespaceLifecycle,
    "ServiceAccount": ServiceAccountAdmission,
    "TaintNodesByCondition": TaintNodesByCondition,
    "Priority": Priority,
    "DefaultTolerationSeconds": DefaultTolerationSeconds,
    "DefaultStorageClass": DefaultStorageClass,
    "StorageObjectInUseProtection": StorageObjectInUseProtection,
    "PersistentVolumeClaimResize": PersistentVolumeClaimResize,
    "RuntimeClass": RuntimeClassAdmission,
    "DefaultIngressClass": DefaultIngressClass,
    "PodTopologyLabels": PodTopologyLabels,
    "PodResizeValidator": PodResizeValidator,
}


def default_plugins(disabled: Collection[str] = ()) -> list[Plugin]:
    return [make() for name, make in PLUGINS.items() if name not in disabled]
