"""The extension points: which plugin implements which, as the type checker and the registry see it."""

import re
from collections.abc import Mapping, Sequence

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.scheduler.classic.node_label import NodeLabel
from sampan.scheduler.classic.selector_spread import SelectorSpread
from sampan.scheduler.classic.service_affinity import ServiceAffinity
from sampan.scheduler.config import ProfileConfig
from sampan.scheduler.config.scheduler_config import DEFAULT_PLUGINS, PluginChoice
from sampan.scheduler.framework import (
    CycleState,
    Handle,
    NodeView,
    PluginScope,
    Rows,
    ScalarPlugin,
    Status,
    extension_points,
)
from sampan.scheduler.framework.extension_points import (
    METHODS,
    POINTS,
    BindPlugin,
    EnqueueExtensions,
    FilterPlugin,
    PermitPlugin,
    PodGroupPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreBindPreFlight,
    PreBindRollback,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreparePlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScoreExtensions,
    ScorePlugin,
    SignatureCondition,
    UnreservePlugin,
)
from sampan.scheduler.plugins.default_binder import DefaultBinder
from sampan.scheduler.plugins.default_preemption import DefaultPreemption
from sampan.scheduler.plugins.dynamic_resources import DynamicResources
from sampan.scheduler.plugins.gang_scheduling import GangScheduling
from sampan.scheduler.plugins.image_locality import ImageLocality
from sampan.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from sampan.scheduler.plugins.node_affinity import NodeAffinity
from sampan.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from sampan.scheduler.plugins.node_name import NodeName
from sampan.scheduler.plugins.node_ports import NodePorts
from sampan.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from sampan.scheduler.plugins.node_resources_fit import NodeResourcesFit
from sampan.scheduler.plugins.node_unschedulable import NodeUnschedulable
from sampan.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from sampan.scheduler.plugins.pod_topology_spread import PodTopologySpread
from sampan.scheduler.plugins.priority_sort import PrioritySort
from sampan.scheduler.plugins.registry import PLUGINS, UnknownSchedulerPlugin
from sampan.scheduler.plugins.scheduling_gates import SchedulingGates
from sampan.scheduler.plugins.taint_toleration import TaintToleration
from sampan.scheduler.plugins.volume_binding import VolumeBinding
from sampan.scheduler.plugins.volume_restrictions import VolumeRestrictions
from sampan.scheduler.plugins.volume_zone import VolumeZone
from sampan.scheduler.simulation import Simulation

# The type checker compares every plugin with the Protocols of its extension points here: a method with another
# signature, or with a misspelt name, is an error in this table.
PRE_ENQUEUE: list[type[PreEnqueuePlugin]] = [SchedulingGates, DynamicResources, GangScheduling]
QUEUE_SORT: list[type[QueueSortPlugin]] = [PrioritySort]
POD_GROUP: list[type[PodGroupPlugin]] = [GangScheduling]
PREPARE: list[type[PreparePlugin]] = [DynamicResources]
SIGNATURE_CONDITION: list[type[SignatureCondition]] = [NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone]
FILTER: list[type[FilterPlugin]] = [
    DynamicResources,
    InterPodAffinity,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeLabel,
    NodeName,
    NodePorts,
    NodeResourcesFit,
    NodeUnschedulable,
    NodeVolumeLimits,
    PodTopologySpread,
    ServiceAffinity,
    TaintToleration,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
]
PRE_FILTER: list[type[PreFilterPlugin]] = [
    DynamicResources,
    InterPodAffinity,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeUnschedulable,
    NodeVolumeLimits,
    PodTopologySpread,
    ServiceAffinity,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
]
POST_FILTER: list[type[PostFilterPlugin]] = [DefaultPreemption, DynamicResources]
PRE_SCORE: list[type[PreScorePlugin]] = [
    DynamicResources,
    ImageLocality,
    InterPodAffinity,
    NodeAffinity,
    NodeResourcesBalancedAllocation,
    PodTopologySpread,
    SelectorSpread,
    ServiceAffinity,
    VolumeBinding,
]
SCORE: list[type[ScorePlugin]] = [
    DynamicResources,
    ImageLocality,
    InterPodAffinity,
    NodeAffinity,
    NodeLabel,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    PodTopologySpread,
    SelectorSpread,
    ServiceAffinity,
    TaintToleration,
    VolumeBinding,
]
NORMALIZE: list[type[ScoreExtensions]] = [
    DynamicResources,
    InterPodAffinity,
    NodeAffinity,
    PodTopologySpread,
    SelectorSpread,
    TaintToleration,
]
RESERVE: list[type[ReservePlugin]] = [DynamicResources, GangScheduling, VolumeBinding]
UNRESERVE: list[type[UnreservePlugin]] = [DynamicResources, GangScheduling, VolumeBinding]
PERMIT: list[type[PermitPlugin]] = [GangScheduling]
PRE_BIND: list[type[PreBindPlugin]] = [DynamicResources, VolumeBinding]
PRE_BIND_PRE_FLIGHT: list[type[PreBindPreFlight]] = [DynamicResources, VolumeBinding]
PRE_BIND_ROLLBACK: list[type[PreBindRollback]] = [DynamicResources]
BIND: list[type[BindPlugin]] = [DefaultBinder]
EVENTS: list[type[EnqueueExtensions]] = [
    DynamicResources,
    GangScheduling,
    InterPodAffinity,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeLabel,
    NodeName,
    NodePorts,
    NodeResourcesFit,
    NodeUnschedulable,
    NodeVolumeLimits,
    PodTopologySpread,
    SchedulingGates,
    ServiceAffinity,
    TaintToleration,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
]

IMPLEMENTATIONS: Mapping[str, Sequence[type]] = {
    "pre_enqueue": PRE_ENQUEUE,
    "sort_key": QUEUE_SORT,
    "pod_group": POD_GROUP,
    "prepare": PREPARE,
    "applies_to": SIGNATURE_CONDITION,
    "pre_filter": PRE_FILTER,
    "filter": FILTER,
    "post_filter": POST_FILTER,
    "pre_score": PRE_SCORE,
    "score": SCORE,
    "normalize": NORMALIZE,
    "reserve": RESERVE,
    "unreserve": UNRESERVE,
    "permit": PERMIT,
    "pre_bind": PRE_BIND,
    "has_pre_bind": PRE_BIND_PRE_FLIGHT,
    "rollback_pre_bind": PRE_BIND_ROLLBACK,
    "bind": BIND,
    "post_bind": [],
    "events_to_register": EVENTS,
}

ARGS = {"NodeLabel": {"labels": ["disk"]}, "ServiceAffinity": {"labels": ["disk"]}}


def simulation_with_all_plugins() -> Simulation:
    others = [PluginChoice(name) for name in PLUGINS if name not in {choice.name for choice in DEFAULT_PLUGINS}]
    return Simulation(profile=ProfileConfig(plugins=(*DEFAULT_PLUGINS, *others), args=ARGS))


def test_table_of_implementations_is_complete() -> None:
    """Every public method of an in-tree plugin is an extension point that the table above has for it."""
    plugins = simulation_with_all_plugins().profile.plugins
    assert {type(plugin).__name__ for plugin in plugins} == set(PLUGINS)
    assert IMPLEMENTATIONS.keys() == METHODS
    for plugin in plugins:
        methods = {name for name in vars(type(plugin)) if not name.startswith("_") and name not in ("name", "scope")}
        assert methods == {method for method, types in IMPLEMENTATIONS.items() if type(plugin) in types}, plugin.name


def test_methods_are_those_of_the_protocols() -> None:
    declared = {
        name
        for protocol in vars(extension_points).values()
        if getattr(protocol, "_is_protocol", False) and protocol.__module__ == extension_points.__name__
        for name in vars(protocol)
        if re.match("[a-z]", name)
    }
    assert declared == METHODS


def test_plugins_are_resolved_at_the_points_that_they_implement() -> None:
    points = simulation_with_all_plugins().profile.points
    for point, field in POINTS.items():
        method = {"queue_sort": "sort_key", "pod_group_post_filter": "post_filter"}.get(field, field)
        assert {type(plugin) for plugin in points.get_plugins_at(point)} == set(IMPLEMENTATIONS[method]), point


class Misspelt:
    name, scope = "Misspelt", PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        pass

    def prefilter(self, cycle: CycleState) -> Status | None:
        return None


class WithAnotherMethod:
    name, scope = "WithAnotherMethod", PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        pass

    def pre_score(self, cycle: CycleState, rows: Rows) -> Status | None:
        return None

    def utilization(self) -> float:
        return 0.5


def simulation_with_plugin(plugin: str) -> Simulation:
    return Simulation(profile=ProfileConfig(plugins=(*DEFAULT_PLUGINS, PluginChoice(f"{__name__}:{plugin}"))))


def test_a_misspelt_extension_point_is_reported() -> None:
    message = "plugin 'Misspelt' has a method 'prefilter', which is not an extension point; did you mean 'pre_filter'?"
    with pytest.raises(UnknownSchedulerPlugin, match=re.escape(message)):
        simulation_with_plugin("Misspelt")


class MisspeltScalar(ScalarPlugin):
    name = "MisspeltScalar"

    def scoer_node(self, pod: Pod, node: NodeView) -> int:
        return 1


def test_a_misspelt_method_of_a_base_class_is_reported() -> None:
    message = "'MisspeltScalar' has a method 'scoer_node', which is not an extension point; did you mean 'score_node'?"
    with pytest.raises(UnknownSchedulerPlugin, match=re.escape(message)):
        simulation_with_plugin("MisspeltScalar")


def test_a_plugin_may_have_other_methods() -> None:
    assert "WithAnotherMethod" in [
        plugin.name for plugin in simulation_with_plugin("WithAnotherMethod").profile.points.pre_score
    ]
