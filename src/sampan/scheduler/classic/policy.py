"""Classic scheduling policies and algorithm providers, translated to profiles of current plugins.

The counterpart is `pkg/scheduler` before v1.23: policy files and ConfigMaps (kind Policy, apiVersion v1; JSON or YAML)
name predicates, which become filter plugins, and priorities, which become score plugins with weights and arguments.
Errors name the field. Nothing here takes part in scheduling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from sampan.machinery.config_file import ConfigFileError, convert_config, decode_config
from sampan.scheduler.config.scheduler_config import (
    DEFAULT_PLUGINS,
    PluginChoice,
    PointChoice,
    ProfileConfig,
    SchedulerConfig,
)
from sampan.scheduler.extenders.extender_config import read_extenders


class _StrictStruct(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    pass


class ServiceAffinityArgument(_StrictStruct):
    labels: list[str]


class LabelsPresence(_StrictStruct):
    labels: list[str]
    presence: bool = False


class PredicateArgument(_StrictStruct):
    serviceAffinity: ServiceAffinityArgument | None = None
    labelsPresence: LabelsPresence | None = None


class PolicyPredicate(_StrictStruct):
    name: str
    argument: PredicateArgument | None = None


class ServiceAntiAffinity(_StrictStruct):
    label: str


class LabelPreference(_StrictStruct):
    label: str
    presence: bool = False


class RatioPoint(_StrictStruct):
    utilization: int
    score: int


class RatioResource(_StrictStruct):
    name: str
    weight: int = 1


class RequestedToCapacityRatio(_StrictStruct):
    shape: list[RatioPoint]
    resources: list[RatioResource] = []


class PriorityArgument(_StrictStruct):
    serviceAntiAffinity: ServiceAntiAffinity | None = None
    labelPreference: LabelPreference | None = None
    requestedToCapacityRatioArguments: RequestedToCapacityRatio | None = None


class PolicyPriority(_StrictStruct):
    name: str
    weight: int
    argument: PriorityArgument | None = None


class LegacyPolicy(_StrictStruct):
    kind: str = "Policy"
    apiVersion: str = "v1"
    predicates: list[PolicyPredicate] | None = None
    """None stands for the default predicates; with an empty list only the mandatory ones apply."""
    priorities: list[PolicyPriority] | None = None
    extenders: list[dict[str, Any]] = []
    hardPodAffinitySymmetricWeight: int | None = None
    alwaysCheckAllPredicates: bool = False
    """Accepted without effect: `sampan why` evaluates all predicates in any case."""


def parse_policy(text: str) -> LegacyPolicy:
    policy = convert_config(decode_config(text), LegacyPolicy)
    if (policy.kind, policy.apiVersion) != ("Policy", "v1"):
        raise ConfigFileError(f"kind: want Policy of v1, not {policy.kind} of {policy.apiVersion}")
    return policy


PREDICATES: Mapping[str, tuple[str, ...]] = {
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "PodFitsHost": ("NodeName",),
    "HostName": ("NodeName",),
    "PodSelectorMatches": ("NodeAffinity",),
    "MatchNodeSelector": ("NodeAffinity",),
    "PodFitsPorts": ("NodePorts",),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsResources": ("NodeResourcesFit",),
    "GeneralPredicates": ("NodeName", "NodePorts", "NodeAffinity", "NodeResourcesFit"),
    "PodToleratesNodeTaints": ("TaintToleration",),
    "PodToleratesNodeNoExecuteTaints": ("TaintToleration",),
    "CheckNodeCondition": ("TaintToleration",),
    "CheckNodeMemoryPressure": ("TaintToleration",),
    "CheckNodeDiskPressure": ("TaintToleration",),
    "CheckNodePIDPressure": ("TaintToleration",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "NoVolumeNodeConflict": ("VolumeBinding",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "EvenPodsSpread": ("PodTopologySpread",),
}
"""The filter plugins of each predicate. The predicates about node conditions map to taints, and the limits of cloud
volumes to CSI."""

MANDATORY = ("NodeUnschedulable", "TaintToleration")
"""Filters that apply regardless of the policy: they exclude cordoned nodes and nodes with adverse conditions."""

LABELS_PRESENCE, SERVICE_AFFINITY = "CheckNodeLabelPresence", "CheckServiceAffinity"
"""These predicates require an argument (labelsPresence, serviceAffinity); with one, a predicate may have any name."""


class PriorityPlugin(NamedTuple):
    plugin: str
    args: Mapping[str, Any] = {}
    """Plugin arguments; if there are any, a separate plugin instance is created under the priority's name."""


PRIORITIES: Mapping[str, PriorityPlugin | None] = {
    "LeastRequestedPriority": PriorityPlugin("NodeResourcesFit"),
    "MostRequestedPriority": PriorityPlugin("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}}),
    "BalancedResourceAllocation": PriorityPlugin("NodeResourcesBalancedAllocation"),
    "SelectorSpreadPriority": PriorityPlugin("SelectorSpread"),
    "ServiceSpreadingPriority": PriorityPlugin("SelectorSpread", {"servicesOnly": True}),
    "ImageLocalityPriority": PriorityPlugin("ImageLocality"),
    "NodeAffinityPriority": PriorityPlugin("NodeAffinity"),
    "TaintTolerationPriority": PriorityPlugin("TaintToleration"),
    "InterPodAffinityPriority": PriorityPlugin("InterPodAffinity"),
    "EvenPodsSpreadPriority": PriorityPlugin("PodTopologySpread"),
    "EqualPriority": None,
}
"""The score plugin of each priority. None stands for a constant score, which needs no plugin."""

LABEL_PREFERENCE, CAPACITY_RATIO = "CalculateNodeLabelPriority", "RequestedToCapacityRatioPriority"
"""These priorities require an argument (labelPreference, requestedToCapacityRatioArguments); with one, a priority may
have any name.
"""


PROVIDERS: Mapping[str, ProfileConfig] = {
    "DefaultProvider": ProfileConfig(),
    "ClusterAutoscalerProvider": ProfileConfig(
        args={"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}}
    ),
}
"""The profile of each algorithm provider. ClusterAutoscalerProvider packs pods onto few nodes, so that the autoscaler
can remove the others."""


_ALWAYS_ENABLED = ("SchedulingGates", "PrioritySort", "DefaultPreemption", "DefaultBinder")
_FILTERING, _SCORING = ("preFilter", "filter"), ("preScore", "score")
_HIGHEST_WEIGHT = 2**31 // 100


class _ProfileBuilder:
    """Collects the plugins of a policy."""

    def __init__(self) -> None:
        self.filters: dict[str, PluginChoice] = {}
        self.scores: dict[str, PluginChoice] = {}
        self.args: dict[str, dict[str, Any]] = {}

    def filter(self, name: str, plugin: str = "", **args: Any) -> None:
        self.filters.setdefault(name, PluginChoice(name, plugin=plugin))
        if args:
            self.args[name] = args

    def score(self, name: str, weight: int, plugin: str = "", **args: Any) -> None:
        self.scores[name] = PluginChoice(name, weight, plugin)
        if args:
            self.args[name] = args

    def config(self) -> ProfileConfig:
        """Return the profile; a plugin that only scores is disabled at the filter points, and vice versa."""
        plugins = [*map(PluginChoice, _ALWAYS_ENABLED), *(self.filters | self.scores).values()]
        only_filter = PointChoice(disabled=[name for name in self.filters if name not in self.scores])
        only_score = PointChoice(disabled=[name for name in self.scores if name not in self.filters])
        points = dict.fromkeys(_FILTERING, only_score) | dict.fromkeys(_SCORING, only_filter)
        return ProfileConfig(plugins=plugins, points=points, args=self.args)


def config_of(policy: LegacyPolicy) -> SchedulerConfig:
    """Return the configuration; raise ConfigFileError for unknown names and for invalid arguments."""
    extenders = read_extenders(policy.extenders, ConfigFileError)
    return SchedulerConfig(profiles=[profile_of(policy)], extenders=extenders)


def profile_of(policy: LegacyPolicy) -> ProfileConfig:
    profile = _ProfileBuilder()
    for name in MANDATORY:
        profile.filter(name)
    if policy.predicates is None:
        for choice in DEFAULT_PLUGINS:
            if choice.name not in _ALWAYS_ENABLED:
                profile.filter(choice.name)
    for index, predicate in enumerate(policy.predicates or ()):
        _add_predicate(profile, predicate, f"predicates[{index}]")
    if policy.priorities is None:
        for choice in DEFAULT_PLUGINS:
            if choice.weight:
                profile.score(choice.name, choice.weight)
    for index, priority in enumerate(policy.priorities or ()):
        _add_priority(profile, priority, f"priorities[{index}]")
    _set_symmetric_weight(profile, policy)
    return profile.config()


def _add_predicate(profile: _ProfileBuilder, predicate: PolicyPredicate, path: str) -> None:
    argument = predicate.argument
    if argument is None:
        if predicate.name in (LABELS_PRESENCE, SERVICE_AFFINITY):
            field = "labelsPresence" if predicate.name == LABELS_PRESENCE else "serviceAffinity"
            raise ConfigFileError(f"{path}.argument.{field}: Required value: {predicate.name} needs it")
        if predicate.name not in PREDICATES:
            raise ConfigFileError(f"{path}.name: there is no predicate {predicate.name!r}")
        for name in PREDICATES[predicate.name]:
            profile.filter(name)
    elif (argument.serviceAffinity is None) == (argument.labelsPresence is None):
        raise ConfigFileError(f"{path}.argument: want exactly one of serviceAffinity and labelsPresence")
    elif predicate.name in PREDICATES or predicate.name in profile.filters:
        raise ConfigFileError(f"{path}.name: {predicate.name!r} has no argument")
    elif argument.serviceAffinity is not None:
        profile.filter(predicate.name, "ServiceAffinity", labels=argument.serviceAffinity.labels)
    elif argument.labelsPresence is not None:
        profile.filter(predicate.name, "NodeLabel", **msgspec.structs.asdict(argument.labelsPresence))


def _add_priority(profile: _ProfileBuilder, priority: PolicyPriority, path: str) -> None:
    if not 0 < priority.weight < _HIGHEST_WEIGHT:
        detail = f"Priority {priority.name} should have a positive weight applied to it or it has overflown"
        raise ConfigFileError(f"{path}.weight: {detail}")
    if priority.argument is not None:
        _add_priority_argument(profile, priority, path)
        return
    if priority.name in (LABEL_PREFERENCE, CAPACITY_RATIO):
        field = "labelPreference" if priority.name == LABEL_PREFERENCE else "requestedToCapacityRatioArguments"
        raise ConfigFileError(f"{path}.argument.{field}: Required value: {priority.name} needs it")
    if priority.name not in PRIORITIES:
        raise ConfigFileError(f"{path}.name: there is no priority {priority.name!r}")
    _add_score_plugin(profile, priority, PRIORITIES[priority.name])


def _add_score_plugin(profile: _ProfileBuilder, priority: PolicyPriority, meaning: PriorityPlugin | None) -> None:
    if meaning is None:
        return
    if meaning.args:
        profile.score(priority.name, priority.weight, meaning.plugin, **meaning.args)
    else:
        profile.score(meaning.plugin, priority.weight)


def _add_priority_argument(profile: _ProfileBuilder, priority: PolicyPriority, path: str) -> None:
    argument = priority.argument
    assert argument is not None
    values = [value for value in msgspec.structs.asdict(argument).values() if value is not None]
    if len(values) != 1:
        named = ", ".join(argument.__struct_fields__)
        raise ConfigFileError(f"{path}.argument: want exactly one of {named}")
    if priority.name in PRIORITIES or priority.name in profile.scores:
        raise ConfigFileError(f"{path}.name: {priority.name!r} has no argument")
    if argument.serviceAntiAffinity is not None:
        label = argument.serviceAntiAffinity.label
        profile.score(priority.name, priority.weight, "ServiceAffinity", antiAffinityLabel=label)
    elif argument.labelPreference is not None:
        preference = argument.labelPreference
        labels = [preference.label]
        profile.score(priority.name, priority.weight, "NodeLabel", labels=labels, presence=preference.presence)
    elif argument.requestedToCapacityRatioArguments is not None:
        strategy = _ratio(argument.requestedToCapacityRatioArguments)
        profile.score(priority.name, priority.weight, "NodeResourcesFit", scoringStrategy=strategy)


def _ratio(argument: Any) -> dict[str, Any]:
    strategy: dict[str, Any] = {"type": "RequestedToCapacityRatio"}
    ratio: dict[str, Any] = msgspec.to_builtins(argument)
    if argument.resources:
        strategy["resources"] = [msgspec.structs.asdict(resource) for resource in argument.resources]
    return strategy | {"requestedToCapacityRatio": {"shape": ratio["shape"]}}


def _set_symmetric_weight(profile: _ProfileBuilder, policy: LegacyPolicy) -> None:
    weight = policy.hardPodAffinitySymmetricWeight
    if weight is None:
        return
    if not 0 <= weight <= 100:
        raise ConfigFileError(f"hardPodAffinitySymmetricWeight: Invalid value: {weight}: not in valid range [0-100]")
    profile.args["InterPodAffinity"] = {"hardPodAffinityWeight": weight}
