"""The plug-ins, in the real server's order, and which of them are on."""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from sampan.apiserver.admission.chain import Plugin
from sampan.apiserver.admission.default_ingress_class import DefaultIngressClass
from sampan.apiserver.admission.default_storage_class import DefaultStorageClass
from sampan.apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds
from sampan.apiserver.admission.limit_ranger import LimitRanger
from sampan.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from sampan.apiserver.admission.persistent_volume_claim_resize import PersistentVolumeClaimResize
from sampan.apiserver.admission.pod_resize import PodResizeValidator
from sampan.apiserver.admission.pod_security import PodSecurity
from sampan.apiserver.admission.pod_topology_labels import PodTopologyLabels
from sampan.apiserver.admission.priority import Priority
from sampan.apiserver.admission.resource_quota import ResourceQuotaAdmission
from sampan.apiserver.admission.runtime_class import RuntimeClassAdmission
from sampan.apiserver.admission.service_account import ServiceAccountAdmission
from sampan.apiserver.admission.storage_object_in_use_protection import StorageObjectInUseProtection
from sampan.apiserver.admission.taint_nodes_by_condition import TaintNodesByCondition

PLUGINS: Final[dict[str, Callable[[], Plugin]]] = {
    "NamespaceLifecycle": NamespaceLifecycle,
    "LimitRanger": LimitRanger,
    "ServiceAccount": ServiceAccountAdmission,
    "TaintNodesByCondition": TaintNodesByCondition,
    "PodSecurity": PodSecurity,
    "Priority": Priority,
    "DefaultTolerationSeconds": DefaultTolerationSeconds,
    "DefaultStorageClass": DefaultStorageClass,
    "StorageObjectInUseProtection": StorageObjectInUseProtection,
    "PersistentVolumeClaimResize": PersistentVolumeClaimResize,
    "RuntimeClass": RuntimeClassAdmission,
    "DefaultIngressClass": DefaultIngressClass,
    "PodTopologyLabels": PodTopologyLabels,
    "PodResizeValidator": PodResizeValidator,
    "ResourceQuota": ResourceQuotaAdmission,
}

OFF: Final[frozenset[str]] = frozenset()
"""Those that are on only where somebody asks for them."""


class UnknownPlugin(ValueError):
    """A name that no plug-in has."""


def check_names(names: Iterable[str]) -> None:
    for name in names:
        if name not in PLUGINS:
            raise UnknownPlugin(f"there is no admission plug-in {name!r}")


def default_plugins(disabled: Collection[str] = (), enabled: Collection[str] = ()) -> list[Plugin]:
    """Those that are on: the usual ones and the `enabled`, without the `disabled`."""
    check_names((*enabled, *disabled))
    is_on = {name: name in enabled or name not in OFF for name in PLUGINS}
    return [make() for name, make in PLUGINS.items() if is_on[name] and name not in disabled]
