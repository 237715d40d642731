"""Translation of a policy to a profile: filter plug-ins, score plug-ins, weights and arguments."""

from __future__ import annotations

from typing import Any

import msgspec

from sampan.scheduler.config import DEFAULT_PLUGINS, PluginChoice, PointChoice, ProfileConfig, SchedulerConfig
from sampan.scheduler.extenders.extender_config import read_extenders
from sampan.scheduler.policy.policy_file import Policy, PolicyError, Predicate, Priority
from sampan.scheduler.policy.predicates import LABELS_PRESENCE, MANDATORY, PREDICATES, SERVICE_AFFINITY
from sampan.scheduler.policy.priorities import CAPACITY_RATIO, LABEL_PREFERENCE, PRIORITIES, Meaning

_ALWAYS = ("SchedulingGates", "PrioritySort", "DefaultPreemption", "DefaultBinder")
_FILTERING, _SCORING = ("preFilter", "filter"), ("preScore", "score")
_HIGHEST_WEIGHT = 2**31 // 100


class _Profile:
    """Collects the plug-ins of a policy."""

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

    def made(self) -> ProfileConfig:
        """Return the profile; a plug-in that only scores is disabled at the filter points, and vice versa."""
        plugins = [*map(PluginChoice, _ALWAYS), *(self.filters | self.scores).values()]
        only_filter = PointChoice(disabled=[name for name in self.filters if name not in self.scores])
        only_score = PointChoice(disabled=[name for name in self.scores if name not in self.filters])
        points = dict.fromkeys(_FILTERING, only_score) | dict.fromkeys(_SCORING, only_filter)
        return ProfileConfig(plugins=plugins, points=points, args=self.args)


def config_of(policy: Policy) -> SchedulerConfig:
    """Return the configuration; raise PolicyError for unknown names and for invalid arguments."""
    extenders = read_extenders(policy.extenders, PolicyError)
    return SchedulerConfig(profiles=[profile_of(policy)], extenders=extenders)


def profile_of(policy: Policy) -> ProfileConfig:
    profile = _Profile()
    for name in MANDATORY:
        profile.filter(name)
    if policy.predicates is None:
        for choice in DEFAULT_PLUGINS:
            if choice.name not in _ALWAYS:
                profile.filter(choice.name)
    for at, predicate in enumerate(policy.predicates or ()):
        _take_predicate(profile, predicate, f"predicates[{at}]")
    if policy.priorities is None:
        for choice in DEFAULT_PLUGINS:
            if choice.weight:
                profile.score(choice.name, choice.weight)
    for at, priority in enumerate(policy.priorities or ()):
        _take_priority(profile, priority, f"priorities[{at}]")
    _set_symmetric_weight(profile, policy)
    return profile.made()


def _take_predicate(found: _Profile, given: Predicate, at: str) -> None:
    argument = given.argument
    if argument is None:
        if given.name in (LABELS_PRESENCE, SERVICE_AFFINITY):
            field = "labelsPresence" if given.name == LABELS_PRESENCE else "serviceAffinity"
            raise PolicyError(f"{at}.argument.{field}: Required value: {given.name} needs it")
        if given.name not in PREDICATES:
            raise PolicyError(f"{at}.name: there is no predicate {given.name!r}")
        for name in PREDICATES[given.name]:
            found.filter(name)
    elif (argument.serviceAffinity is None) == (argument.labelsPresence is None):
        raise PolicyError(f"{at}.argument: want exactly one of serviceAffinity and labelsPresence")
    elif given.name in PREDICATES or given.name in found.filters:
        raise PolicyError(f"{at}.name: {given.name!r} has no argument")
    elif argument.serviceAffinity is not None:
        found.filter(given.name, "ServiceAffinity", labels=argument.serviceAffinity.labels)
    elif argument.labelsPresence is not None:
        found.filter(given.name, "NodeLabel", **msgspec.structs.asdict(argument.labelsPresence))


def _take_priority(found: _Profile, given: Priority, at: str) -> None:
    if not 0 < given.weight < _HIGHEST_WEIGHT:
        detail = f"Priority {given.name} should have a positive weight applied to it or it has overflown"
        raise PolicyError(f"{at}.weight: {detail}")
    if given.argument is not None:
        _take_priority_argument(found, given, at)
        return
    if given.name in (LABEL_PREFERENCE, CAPACITY_RATIO):
        field = "labelPreference" if given.name == LABEL_PREFERENCE else "requestedToCapacityRatioArguments"
        raise PolicyError(f"{at}.argument.{field}: Required value: {given.name} needs it")
    if given.name not in PRIORITIES:
        raise PolicyError(f"{at}.name: there is no priority {given.name!r}")
    _take_meaning(found, given, PRIORITIES[given.name])


def _take_meaning(found: _Profile, given: Priority, meaning: Meaning | None) -> None:
    if meaning is None:
        return
    if meaning.args:
        found.score(given.name, given.weight, meaning.plugin, **meaning.args)
    else:
        found.score(meaning.plugin, given.weight)


def _take_priority_argument(found: _Profile, given: Priority, at: str) -> None:
    argument = given.argument
    assert argument is not None
    values = [value for value in msgspec.structs.asdict(argument).values() if value is not None]
    if len(values) != 1:
        named = ", ".join(argument.__struct_fields__)
        raise PolicyError(f"{at}.argument: want exactly one of {named}")
    if given.name in PRIORITIES or given.name in found.scores:
        raise PolicyError(f"{at}.name: {given.name!r} has no argument")
    if argument.serviceAntiAffinity is not None:
        label = argument.serviceAntiAffinity.label
        found.score(given.name, given.weight, "ServiceAffinity", antiAffinityLabel=label)
    elif argument.labelPreference is not None:
        preference = argument.labelPreference
        labels = [preference.label]
        found.score(given.name, given.weight, "NodeLabel", labels=labels, presence=preference.presence)
    elif argument.requestedToCapacityRatioArguments is not None:
        strategy = _ratio(argument.requestedToCapacityRatioArguments)
        found.score(given.name, given.weight, "NodeResourcesFit", scoringStrategy=strategy)


def _ratio(given: Any) -> dict[str, Any]:
    strategy: dict[str, Any] = {"type": "RequestedToCapacityRatio"}
    ratio: dict[str, Any] = msgspec.to_builtins(given)
    if given.resources:
        strategy["resources"] = [msgspec.structs.asdict(resource) for resource in given.resources]
    return strategy | {"requestedToCapacityRatio": {"shape": ratio["shape"]}}


def _set_symmetric_weight(found: _Profile, policy: Policy) -> None:
    weight = policy.hardPodAffinitySymmetricWeight
    if weight is None:
        return
    if not 0 <= weight <= 100:
        raise PolicyError(f"hardPodAffinitySymmetricWeight: Invalid value: {weight}: not in valid range [0-100]")
    found.args["InterPodAffinity"] = {"hardPodAffinityWeight": weight}
