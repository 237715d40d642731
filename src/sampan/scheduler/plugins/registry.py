"""The registry of plug-ins, and the creation of profiles from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from sampan.scheduler.config import DEFAULT_PLUGINS, PluginChoice, ProfileConfig
from sampan.scheduler.config.plugin_args import ArgumentError
from sampan.scheduler.framework.contract import ClusterEvent, Handle, QueueingHint
from sampan.scheduler.framework.framework import POINTS, Framework
from sampan.scheduler.framework.metrics import PointMetrics
from sampan.scheduler.framework.scores import TieBreaker
from sampan.scheduler.metrics import SchedulerMetrics

_PACKAGE = "sampan.scheduler.plugins"
PLUGINS: Mapping[str, str] = {
    "SchedulingGates": f"{_PACKAGE}.scheduling_gates:SchedulingGates",
    "PrioritySort": f"{_PACKAGE}.priority_sort:PrioritySort",
    "NodeUnschedulable": f"{_PACKAGE}.node_unschedulable:NodeUnschedulable",
    "NodeName": f"{_PACKAGE}.node_name:NodeName",
    "TaintToleration": f"{_PACKAGE}.taint_toleration:TaintToleration",
    "NodeAffinity": f"{_PACKAGE}.node_affinity:NodeAffinity",
    "NodePorts": f"{_PACKAGE}.node_ports:NodePorts",
    "NodeResourcesFit": f"{_PACKAGE}.node_resources_fit:NodeResourcesFit",
    "VolumeRestrictions": f"{_PACKAGE}.volume_restrictions:VolumeRestrictions",
    "NodeVolumeLimits": f"{_PACKAGE}.node_volume_limits:NodeVolumeLimits",
    "VolumeBinding": f"{_PACKAGE}.volume_binding:VolumeBinding",
    "VolumeZone": f"{_PACKAGE}.volume_zone:VolumeZone",
    "PodTopologySpread": f"{_PACKAGE}.pod_topology_spread:PodTopologySpread",
    "InterPodAffinity": f"{_PACKAGE}.inter_pod_affinity:InterPodAffinity",
    "DynamicResources": f"{_PACKAGE}.dynamic_resources:DynamicResources",
    "DefaultPreemption": f"{_PACKAGE}.default_preemption:DefaultPreemption",
    "GangScheduling": f"{_PACKAGE}.gang_scheduling:GangScheduling",
    "NodeResourcesBalancedAllocation": (
        f"{_PACKAGE}.node_resources_balanced_allocation:NodeResourcesBalancedAllocation"
    ),
    "ImageLocality": f"{_PACKAGE}.image_locality:ImageLocality",
    "DefaultBinder": f"{_PACKAGE}.default_binder:DefaultBinder",
    "NodeDeclaredFeatures": f"{_PACKAGE}.node_declared_features:NodeDeclaredFeatures",
    "NodeLabel": f"{_PACKAGE}.node_label:NodeLabel",
    "ServiceAffinity": f"{_PACKAGE}.service_affinity:ServiceAffinity",
    "SelectorSpread": f"{_PACKAGE}.selector_spread:SelectorSpread",
}
"""The in-tree plug-ins by name, as `module:Class`."""

ENTRY_POINTS = "sampan.scheduler.plugins"
"""The entry point group in which installed packages provide plug-ins."""


class UnknownSchedulerPlugin(ValueError):
    """An unknown plug-in; the message names it."""


def load(name: str) -> Callable[[Handle], Any]:
    """Return the class of a plug-in: an in-tree plug-in, an installed one, or `module:Class`."""
    where = PLUGINS.get(name, name if ":" in name else "")
    if where:
        module, _, attribute = where.partition(":")
        try:
            factory: Callable[[Handle], Any] = getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise UnknownSchedulerPlugin(f"plug-in {name!r} cannot be loaded: {error}") from error
        return factory
    for point in entry_points(group=ENTRY_POINTS, name=name):
        loaded: Callable[[Handle], Any] = point.load()
        return loaded
    raise UnknownSchedulerPlugin(f"there is no plug-in {name!r}")


def preload() -> None:
    """Import the modules of the default plug-ins; to be called in a thread before the event loop needs them.

    Without it, numpy would import `numpy.ma` in the middle of the first scheduling cycle.
    """
    import_module("numpy.ma")
    for choice in DEFAULT_PLUGINS:
        load(choice.name)


def make_framework(
    config: ProfileConfig, handle: Handle, tie_breaker: TieBreaker, metrics: SchedulerMetrics | None = None
) -> Framework:
    """Create a profile; plug-ins enabled at a specific extension point run before those enabled at all points."""
    instances: dict[str, Any] = {}
    weights: dict[str, int] = {}

    def plugin(choice: PluginChoice) -> Any:
        if choice.name not in instances:
            instances[choice.name] = _make(choice, config, handle)
        selected = instances[choice.name]
        weights[selected.name] = choice.weight or weights.get(selected.name, 0)
        return selected

    every = [plugin(choice) for choice in config.plugins]
    points: dict[str, list[Any]] = {}
    for point, method in POINTS.items():
        choice = config.points.get(point)
        selected = [_at(point, plugin(more)) for more in (choice.enabled if choice is not None else ())]
        selected += [instance for instance in every if hasattr(instance, method) and not _is_off(instance.name, choice)]
        points[point] = list({instance.name: instance for instance in selected}.values())
    if len(points["queueSort"]) != 1:
        raise ArgumentError(f"profile {config.scheduler_name}: exactly one plug-in sorts the queue")
    if not points["bind"]:
        raise ArgumentError(f"profile {config.scheduler_name}: at least one plug-in must bind")
    return Framework(
        name=config.scheduler_name,
        table=handle.table,
        points=dict(points),
        weights=weights,
        tie_breaker=tie_breaker,
        metrics=PointMetrics(profile=config.scheduler_name, metrics=metrics),
    )


def _make(choice: PluginChoice, config: ProfileConfig, handle: Handle) -> Any:
    own = replace(handle, args=config.args.get(choice.name, {}), scheduler_name=config.scheduler_name)
    try:
        plugin = load(choice.plugin or choice.name)(own)
    except ArgumentError as error:
        raise ArgumentError(f"arguments of {choice.name}: {error}") from error
    if choice.plugin:
        plugin.name = choice.name
    return plugin


def _at(point: str, plugin: Any) -> Any:
    if not hasattr(plugin, POINTS[point]):
        raise ArgumentError(f"plugin {plugin.name!r} does not extend {point} plugin")
    return plugin


def _is_off(name: str, choice: Any) -> bool:
    return choice is not None and ("*" in choice.disabled or name in choice.disabled)


def hints_of(profiles: Iterable[Framework]) -> dict[ClusterEvent, list[tuple[str, QueueingHint | None]]]:
    """Return the queueing hints of all plug-ins, by event."""
    hints: dict[ClusterEvent, dict[str, QueueingHint | None]] = {}
    for profile in profiles:
        for plugin in profile.plugins:
            for event, hint in plugin.events() if hasattr(plugin, "events") else ():
                hints.setdefault(event, {})[plugin.name] = hint
    return {event: list(plugins.items()) for event, plugins in hints.items()}


def plugins_without_hints(profiles: Iterable[Framework]) -> frozenset[str]:
    """Return the plug-ins that may reject a pod but have no queueing hints."""
    return frozenset(
        plugin.name
        for profile in profiles
        for plugin in profile.plugins
        if not hasattr(plugin, "events") and any(hasattr(plugin, method) for method in _REJECTING_POINTS)
    )


_REJECTING_POINTS = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")
