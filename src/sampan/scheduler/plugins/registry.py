"""The registry of plugins, and the profiles that are made of them (compare `framework/plugins/registry.go`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.metadata import entry_points

from sampan.scheduler import classic
from sampan.scheduler.config import DEFAULT_PLUGINS, PluginChoice, PointChoice, ProfileConfig
from sampan.scheduler.config.plugin_args import ArgumentError
from sampan.scheduler.framework.extension_points import (
    ExtensionPoints,
    MisspeltExtensionPoint,
    SchedulerPlugin,
    check_spelling,
)
from sampan.scheduler.framework.framework import Framework, TieBreaker
from sampan.scheduler.framework.handle import Handle, PluginFactory
from sampan.scheduler.framework.metrics import PointMetrics
from sampan.scheduler.framework.plugin_failure import PluginFailure, describe, find_plugin_failure
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
    **classic.PLUGINS,
}
"""The in-tree plugins by name, as `module:Class`."""

ENTRY_POINTS = "sampan.scheduler.plugins"
"""The entry point group in which installed packages provide plugins."""


class UnknownSchedulerPlugin(ValueError):
    """An unknown plugin; the message names it."""


def load(name: str) -> PluginFactory:
    """Return the class of a plugin: an in-tree plugin, an installed one, or `module:Class`."""
    module_path = PLUGINS.get(name, name if ":" in name else "")
    if module_path:
        module, _, attribute = module_path.partition(":")
        try:
            factory: PluginFactory = getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise UnknownSchedulerPlugin(f"plugin {name!r} cannot be loaded: {error}") from error
        except Exception as error:
            raise PluginFailure(f"plugin {name!r} cannot be loaded: {describe(error)}") from error
        return factory
    for point in entry_points(group=ENTRY_POINTS, name=name):
        loaded: PluginFactory = point.load()
        return loaded
    raise UnknownSchedulerPlugin(f"there is no plugin {name!r}")


def preload() -> None:
    """Import the modules of the default plugins; to be called in a thread before the event loop needs them.

    Without it, numpy would import `numpy.ma` in the middle of the first scheduling cycle.
    """
    import_module("numpy.ma")
    for choice in DEFAULT_PLUGINS:
        load(choice.name)


def make_framework(
    config: ProfileConfig, handle: Handle, tie_breaker: TieBreaker, metrics: SchedulerMetrics | None = None
) -> Framework:
    """Create the framework of a profile.

    Plugins that are enabled at a specific extension point run before those that are enabled at all points.
    """
    instances: dict[str, SchedulerPlugin] = {}
    weights: dict[str, int] = {}

    def instantiate(choice: PluginChoice) -> SchedulerPlugin:
        if choice.name not in instances:
            instances[choice.name] = _make_plugin(choice, config, handle)
        plugin = instances[choice.name]
        weights[plugin.name] = choice.weight or weights.get(plugin.name, 0)
        return plugin

    multi_point = [instantiate(choice) for choice in config.plugins]

    def list_enabled_plugins(point: str) -> Sequence[SchedulerPlugin]:
        choice = config.points.get(point, PointChoice())
        specific = [instantiate(other) for other in choice.enabled]
        general = [plugin for plugin in multi_point if not {"*", plugin.name}.intersection(choice.disabled)]
        return list({plugin.name: plugin for plugin in (*specific, *general)}.values())

    points = ExtensionPoints.resolve(list_enabled_plugins)
    _check(config, points)
    return Framework(
        name=config.scheduler_name,
        table=handle.table,
        points=points,
        weights=weights,
        tie_breaker=tie_breaker,
        metrics=PointMetrics(profile=config.scheduler_name, metrics=metrics),
    )


def _check(config: ProfileConfig, points: ExtensionPoints) -> None:
    for point, choice in config.points.items():
        names = {plugin.name for plugin in points.get_plugins_at(point)}
        for enabled in choice.enabled:
            if enabled.name not in names:
                raise ArgumentError(f"plugin {enabled.name!r} does not extend {point} plugin")
    if len(points.queue_sort) != 1:
        raise ArgumentError(f"profile {config.scheduler_name}: exactly one plugin sorts the queue")
    if not points.bind:
        raise ArgumentError(f"profile {config.scheduler_name}: at least one plugin must bind")


def _name_instance(value: object, choice: PluginChoice) -> str:
    """Return the name of the choice if the value is an instance of its plugin, even a half-made one."""
    is_instance = type(value) is load(choice.plugin or choice.name)
    return choice.name if is_instance else ""


def _make_plugin(choice: PluginChoice, config: ProfileConfig, handle: Handle) -> SchedulerPlugin:
    own = replace(handle, args=config.args.get(choice.name, {}), scheduler_name=config.scheduler_name)
    try:
        plugin = load(choice.plugin or choice.name)(own)
        check_spelling(plugin)
    except ArgumentError as error:
        raise ArgumentError(f"arguments of {choice.name}: {error}") from error
    except MisspeltExtensionPoint as error:
        raise UnknownSchedulerPlugin(str(error)) from error
    except UnknownSchedulerPlugin:
        raise
    except Exception as error:
        failure = find_plugin_failure(error, lambda value: _name_instance(value, choice))
        raise failure or PluginFailure(f"plugin {choice.name!r} cannot be made: {describe(error)}") from error
    if choice.plugin:
        plugin.name = choice.name
    return plugin
