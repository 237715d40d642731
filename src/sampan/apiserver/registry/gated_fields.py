"""Fields that belong to a feature gate: dropped from writes while the gate is off, given a default while it is on.

The tables name a field by API group, struct and path, whatever kind contains the struct: a row for a container's field
holds for pods and for all pod templates. A disabled field is kept in an object whose stored state uses the feature. The
counterparts are the functions `dropDisabledFields` of the strategies in `pkg/registry` and `pkg/api/pod`.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, get_args

import msgspec

from sampan.api.feature_gates import FeatureGates


class GatedFeature(NamedTuple):
    """Fields that are in use together: a stored object that has one of them keeps all of them."""

    gate: str
    fields: tuple[str, ...]
    """`group.Struct.path`, where group is that of the module of the type, and path may lead through other structs."""


GATED_FEATURES: Final = (
    GatedFeature(
        "AtomicWriteVolumeUserFields",
        (
            "core.ClusterTrustBundleProjection.user",
            "core.ConfigMapVolumeSource.defaultUser",
            "core.DownwardAPIVolumeFile.user",
            "core.DownwardAPIVolumeSource.defaultUser",
            "core.KeyToPath.user",
            "core.PodCertificateProjection.user",
            "core.ProjectedVolumeSource.defaultUser",
            "core.SecretVolumeSource.defaultUser",
            "core.ServiceAccountTokenProjection.user",
        ),
    ),
    GatedFeature("CSIServiceAccountTokenSecrets", ("storage.CSIDriverSpec.serviceAccountTokenInSecrets",)),
    GatedFeature("CSIVolumeHealth", ("core.PersistentVolumeClaimStatus.healthStatus",)),
    GatedFeature("CSIVolumeHealth", ("core.PodStatus.volumeHealth",)),
    GatedFeature("CSIVolumeHealth", ("storage.CSINodeStatus.storageHealth",)),
    GatedFeature("ClusterTrustBundleProjection", ("core.VolumeProjection.clusterTrustBundle",)),
    GatedFeature("CompositePodGroup", ("scheduling.PodGroupSpec.parentCompositePodGroupName",)),
    GatedFeature("CompositePodGroup", ("scheduling.WorkloadSpec.compositePodGroupTemplates",)),
    GatedFeature(
        "ContainerRestartRules",
        (
            "core.Container.restartPolicyRules",
            "core.EphemeralContainer.restartPolicyRules",
            "core.PodSpec.containers.restartPolicy",
        ),
    ),
    GatedFeature("ContainerStopSignals", ("core.Lifecycle.stopSignal",)),
    GatedFeature("CoordinatedLeaderElection", ("coordination.LeaseSpec.preferredHolder",)),
    GatedFeature("CoordinatedLeaderElection", ("coordination.LeaseSpec.strategy",)),
    GatedFeature(
        "DRAConsumableCapacity",
        (
            "resource.AllocatedDeviceStatus.shareID",
            "resource.Device.allowMultipleAllocations",
            "resource.DeviceCapacity.requestPolicy",
            "resource.DeviceConstraint.distinctAttribute",
            "resource.DeviceRequestAllocationResult.consumedCapacity",
            "resource.DeviceRequestAllocationResult.shareID",
            "resource.DeviceSubRequest.capacity",
            "resource.ExactDeviceRequest.capacity",
        ),
    ),
    GatedFeature(
        "DRADerivedAttributes",
        (
            "resource.DeviceSubRequest.derivedAttributes",
            "resource.ExactDeviceRequest.derivedAttributes",
        ),
    ),
    GatedFeature(
        "DRADeviceBindingConditions",
        (
            "resource.Device.bindingConditions",
            "resource.Device.bindingFailureConditions",
            "resource.Device.bindsToNode",
            "resource.DeviceRequestAllocationResult.bindingConditions",
            "resource.DeviceRequestAllocationResult.bindingFailureConditions",
        ),
    ),
    GatedFeature("DRADeviceCompatibilityGroups", ("resource.DeviceCounterConsumption.compatibilityGroups",)),
    GatedFeature(
        "DRADeviceTaints",
        (
            "resource.Device.taints",
            "resource.DeviceSubRequest.tolerations",
            "resource.ExactDeviceRequest.tolerations",
        ),
    ),
    GatedFeature("DRAExtendedResource", ("core.PodStatus.extendedResourceClaimStatus",)),
    GatedFeature("DRAExtendedResource", ("resource.DeviceClassSpec.extendedResourceName",)),
    GatedFeature(
        "DRAListTypeAttributes",
        (
            "resource.DeviceAttribute.bools",
            "resource.DeviceAttribute.ints",
            "resource.DeviceAttribute.strings",
            "resource.DeviceAttribute.versions",
        ),
    ),
    GatedFeature("DRANodeAllocatableResources", ("core.PodStatus.nodeAllocatableResourceClaimStatuses",)),
    GatedFeature("DRANodeAllocatableResources", ("resource.Device.nodeAllocatableResources",)),
    GatedFeature("DRAOptionalNodeOperations", ("resource.DeviceRequestAllocationResult.skipNodeOperations",)),
    GatedFeature("DRAOptionalNodeOperations", ("resource.ResourceSliceSpec.skipNodeOperations",)),
    GatedFeature(
        "DRAPartitionableDevices",
        (
            "resource.Device.allNodes",
            "resource.Device.consumesCounters",
            "resource.Device.nodeName",
            "resource.Device.nodeSelector",
            "resource.ResourceSliceSpec.perDeviceNodeSelection",
            "resource.ResourceSliceSpec.sharedCounters",
        ),
    ),
    GatedFeature(
        "DRAPartitionableDevicesType", ("resource.ResourcePoolStatusRequestSpec.defaultPartitionTypeAttribute",)
    ),
    GatedFeature("DRAPartitionableDevicesType", ("resource.ResourceSliceSpec.partitionTypeAttribute",)),
    GatedFeature(
        "DRAWorkloadResourceClaims",
        (
            "scheduling.PodGroupSpec.resourceClaims",
            "scheduling.PodGroupStatus.resourceClaimStatuses",
        ),
    ),
    GatedFeature("DRAWorkloadResourceClaims", ("scheduling.PodGroupTemplate.resourceClaims",)),
    GatedFeature("DeploymentReplicaSetTerminatingReplicas", ("apps.DeploymentStatus.terminatingReplicas",)),
    GatedFeature("DeploymentReplicaSetTerminatingReplicas", ("apps.ReplicaSetStatus.terminatingReplicas",)),
    GatedFeature("EmptyDirVolumeMode", ("core.EmptyDirVolumeSource.mode",)),
    GatedFeature("EnvFiles", ("core.EnvVarSource.fileKeyRef",)),
    GatedFeature("EvictionRequestAPI", ("core.PodSpec.evictionResponders",)),
    GatedFeature("GRPCContainerProbeTLS", ("core.GRPCAction.mode",)),
    GatedFeature("GenericWorkload", ("core.PodSpec.schedulingGroup",)),
    GatedFeature("H2CContainerProbe", ("core.HTTPGetAction.protocol",)),
    GatedFeature("HPAConfigurableTolerance", ("autoscaling.HPAScalingRules.tolerance",)),
    GatedFeature("HostnameOverride", ("core.PodSpec.hostnameOverride",)),
    GatedFeature("ImageVolumeWithDigest", ("core.VolumeMountStatus.volumeStatus",)),
    GatedFeature(
        "InPlacePodLevelResourcesVerticalScaling",
        (
            "core.PodStatus.allocatedResources",
            "core.PodStatus.resources",
        ),
    ),
    GatedFeature("InPlacePodVerticalScalingSchedulerPreemption", ("core.NodeSpec.podPreemptionPolicy",)),
    GatedFeature("KubeletInUserNamespace", ("core.NodeSystemInfo.runningInUserNamespace",)),
    GatedFeature("MaxUnavailableStatefulSet", ("apps.RollingUpdateStatefulSetStrategy.maxUnavailable",)),
    GatedFeature("MutableCSINodeAllocatableCount", ("storage.CSIDriverSpec.nodeAllocatableUpdatePeriodSeconds",)),
    GatedFeature("NodeDeclaredFeatures", ("core.NodeStatus.declaredFeatures",)),
    GatedFeature("PodCertificateRequest", ("core.VolumeProjection.podCertificate",)),
    GatedFeature("PodGroupPreemptionPolicy", ("scheduling.CompositePodGroupSpec.preemptionPolicy",)),
    GatedFeature("PodGroupPreemptionPolicy", ("scheduling.CompositePodGroupTemplate.preemptionPolicy",)),
    GatedFeature("PodGroupPreemptionPolicy", ("scheduling.PodGroupSpec.preemptionPolicy",)),
    GatedFeature("PodGroupPreemptionPolicy", ("scheduling.PodGroupTemplate.preemptionPolicy",)),
    GatedFeature("ResourceHealthStatus", ("core.ContainerStatus.allocatedResourcesStatus",)),
    GatedFeature("ResourceHealthStatusMessage", ("core.ResourceHealth.message",)),
    GatedFeature("TopologyAwareWorkloadScheduling", ("scheduling.PodGroupSpec.schedulingConstraints",)),
    GatedFeature("TopologyAwareWorkloadScheduling", ("scheduling.PodGroupTemplate.schedulingConstraints",)),
    GatedFeature("VolumeBindMountOptions", ("core.VolumeMount.bindMountOptions",)),
    GatedFeature("VolumeLimitScaling", ("storage.CSIDriverSpec.preventPodSchedulingIfMissing",)),
    GatedFeature("WorkloadWithJob", ("batch.JobSpec.scheduling",)),
)
"""The fields to drop while their gate is off."""
GATED_DEFAULTS: Final = (
    ("H2CContainerProbe", "core.HTTPGetAction.protocol", "HTTP1"),
    ("MaxUnavailableStatefulSet", "apps.RollingUpdateStatefulSetStrategy.maxUnavailable", 1),
    ("VolumeLimitScaling", "storage.CSIDriverSpec.preventPodSchedulingIfMissing", False),
)
"""The fields that have a default value while their gate is on: gate, field and value."""
_DEFAULT_CONDITIONS: Final = {"apps.RollingUpdateStatefulSetStrategy.maxUnavailable": ("type", "RollingUpdate")}
"""Values that the owner of the struct must have for a gated default to apply."""
PRUNED_STRUCTS: Final = frozenset({"core.Lifecycle"})
"""The structs that are dropped with their last field."""


class _SetField(NamedTuple):
    """A field that is set, in a struct that is itself the field `owner_field` of `owner`."""

    default: Any
    feature: GatedFeature
    struct: Any
    name: str
    owner: Any
    owner_field: str

    def drop(self) -> None:
        setattr(self.struct, self.name, copy(self.default))
        kind = type(self.struct)
        if _qualified_name(kind) in PRUNED_STRUCTS and self.struct == kind():
            setattr(self.owner, self.owner_field, None)


@dataclass(slots=True)
class _FieldTree:
    """The fields of a struct that have a row, and those that lead to some."""

    leaves: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Field -> its value if it is unset, and what its row says: the feature or the gated default."""
    branches: dict[str, _FieldTree] = field(default_factory=dict)

    def find(self, struct: Any, set_fields: list[_SetField], owner: Any = None, owner_field: str = "") -> None:
        """Append the leaves that are set in a struct."""
        for name, (unset, feature) in self.leaves.items():
            value = getattr(struct, name)
            if value is not unset and value != unset:
                set_fields.append(_SetField(unset, feature, struct, name, owner, owner_field))
        for name, tree in self.branches.items():
            for child in _structs_in(getattr(struct, name)):
                tree.find(child, set_fields, struct, name)

    def fill(self, struct: Any, owner: Any = None) -> None:
        """Set the leaves that are unset to their gated default."""
        for name, (unset, (value, condition)) in self.leaves.items():
            if getattr(struct, name) == unset and (condition is None or getattr(owner, condition[0]) == condition[1]):
                setattr(struct, name, value)
        for name, tree in self.branches.items():
            for child in _structs_in(getattr(struct, name)):
                tree.fill(child, struct)

    def select_branches(self, names: Iterable[str]) -> _FieldTree:
        return _FieldTree(self.leaves, {name: self.branches[name] for name in names if name in self.branches})


def _structs_in(value: Any) -> Iterable[Any]:
    if not value:
        return ()
    if isinstance(value, list):
        return value
    return value.values() if isinstance(value, dict) else (value,)


class _DropTrees(NamedTuple):
    """What a kind's writes look at: a create everything, an update what its path may change."""

    all: _FieldTree
    main: _FieldTree
    status: _FieldTree


class GatedFields:
    """The tables for the gates of a cluster, compiled for each type at its first write."""

    def __init__(self, gates: FeatureGates) -> None:
        self._features = [feature for feature in GATED_FEATURES if not gates.is_enabled(feature.gate)]
        self._defaults = [
            (path, (value, _DEFAULT_CONDITIONS.get(path)))
            for gate, path, value in GATED_DEFAULTS
            if gates.is_enabled(gate)
        ]
        self._drop_trees: dict[type[Any], _DropTrees | None] = {}
        self._default_trees: dict[type[Any], _FieldTree | None] = {}

    def default(self, obj: Any) -> None:
        """Set the gated defaults of an object."""
        kind = type(obj)
        if kind not in self._default_trees:
            self._default_trees[kind] = _compile(kind, self._defaults)
        if (tree := self._default_trees[kind]) is not None:
            tree.fill(obj)

    def drop(self, obj: Any, old: Any | None, *, subresource: str = "") -> None:
        """Drop the disabled fields of a new or changed object whose features the old object does not use."""
        kind = type(obj)
        if kind not in self._drop_trees:
            self._drop_trees[kind] = self._compile_drop_trees(kind)
        if (trees := self._drop_trees[kind]) is None:
            return
        set_fields: list[_SetField] = []
        tree = trees.all if old is None else trees.status if subresource == "status" else trees.main
        tree.find(obj, set_fields)
        if not set_fields:
            return
        in_use: list[_SetField] = []
        if old is not None:
            trees.all.find(old, in_use)
        used_features = {field.feature for field in in_use}
        for disabled in set_fields:
            if disabled.feature not in used_features:
                disabled.drop()

    def _compile_drop_trees(self, kind: type[Any]) -> _DropTrees | None:
        rows = [(path, feature) for feature in self._features for path in feature.fields]
        tree = _compile(kind, rows)
        if tree is None:
            return None
        return _DropTrees(
            tree, tree.select_branches(tree.branches.keys() - {"status"}), tree.select_branches(("status",))
        )


def _compile(kind: type[Any], rows: Iterable[tuple[str, Any]]) -> _FieldTree | None:
    """Return the tree of a type, None if it contains no field of a row. A row is a field, as in GATED_FEATURES, and its
    feature or its default."""
    by_struct: dict[str, list[tuple[list[str], Any]]] = {}
    for path, payload in rows:
        group, struct, *fields = path.split(".")
        by_struct.setdefault(f"{group}.{struct}", []).append((fields, payload))
    return _compile_struct(kind, by_struct, ()) if by_struct and issubclass(kind, msgspec.Struct) else None


def _compile_struct(
    kind: type[Any], rows: dict[str, list[tuple[list[str], Any]]], owners: tuple[type[Any], ...]
) -> _FieldTree | None:
    """Return the tree of a struct; a struct that contains itself, such as a schema, is not searched again."""
    tree = _FieldTree()
    for info in msgspec.structs.fields(kind):
        child = _struct_type(info.type)
        if child is not None and child is not kind and child not in owners:
            branch = _compile_struct(child, rows, (*owners, kind))
            if branch is not None:
                tree.branches[info.name] = branch
    for fields, payload in rows.get(_qualified_name(kind), ()):
        _add_leaf(tree, kind, fields, payload)
    return tree if tree.leaves or tree.branches else None


def _add_leaf(tree: _FieldTree, kind: type[Any], fields: list[str], payload: Any) -> None:
    info = next(info for info in msgspec.structs.fields(kind) if info.name == fields[0])
    if len(fields) == 1:
        default = info.default
        unset = info.default_factory() if default is msgspec.NODEFAULT else default
        tree.leaves[info.name] = unset, payload
        return
    child = _struct_type(info.type)
    assert child is not None
    _add_leaf(tree.branches.setdefault(info.name, _FieldTree()), child, fields[1:], payload)


def _struct_type(annotation: Any) -> type[Any] | None:
    """Return the struct in the type of a field: itself, or in a list, a map or an optional value."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    return next((kind for part in get_args(annotation) if (kind := _struct_type(part)) is not None), None)


def _qualified_name(kind: type[Any]) -> str:
    """Return the API group and name of a struct, such as `core.Container`."""
    return f"{kind.__module__.rpartition('.')[2].rpartition('_')[0]}.{kind.__name__}"
