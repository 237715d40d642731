"""Configuration of a scheduler: profiles, plugins and their arguments, the queue, and leader election."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sampan.api.feature_gates import FeatureGates
from sampan.scheduler.cache.pod_info import DEFAULT_SCHEDULER
from sampan.scheduler.extenders.extender_config import ExtenderConfig
from sampan.scheduler.scheduling_queue import QueueConfig


@dataclass(frozen=True, slots=True)
class PluginChoice:
    name: str
    weight: int = 0
    """The weight of the plugin's scores; 0 stands for the default of 1."""
    plugin: str = ""
    """The plugin to instantiate if it differs from `name`, so that one plugin can be used twice with different
    arguments.
    """


@dataclass(frozen=True, slots=True)
class PointChoice:
    """Changes at one extension point: plugins to enable in addition, and plugins to disable (`*` for all)."""

    enabled: Sequence[PluginChoice] = ()
    disabled: Sequence[str] = ()


DEFAULT_PLUGINS = (
    PluginChoice("SchedulingGates"),
    PluginChoice("PrioritySort"),
    PluginChoice("NodeName"),
    PluginChoice("NodeUnschedulable"),
    PluginChoice("TaintToleration", 3),
    PluginChoice("NodeAffinity", 2),
    PluginChoice("NodePorts"),
    PluginChoice("NodeResourcesFit", 1),
    PluginChoice("VolumeRestrictions"),
    PluginChoice("NodeVolumeLimits"),
    PluginChoice("VolumeBinding"),
    PluginChoice("VolumeZone"),
    PluginChoice("PodTopologySpread", 2),
    PluginChoice("InterPodAffinity", 2),
    PluginChoice("DynamicResources", 2),
    PluginChoice("DefaultPreemption"),
    PluginChoice("GangScheduling"),
    PluginChoice("NodeResourcesBalancedAllocation", 1),
    PluginChoice("ImageLocality", 1),
    PluginChoice("DefaultBinder"),
    PluginChoice("NodeDeclaredFeatures"),
)
"""The plugins of the v1.37 default profile in their order, and GangScheduling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileConfig:
    scheduler_name: str = DEFAULT_SCHEDULER
    plugins: Sequence[PluginChoice] = DEFAULT_PLUGINS
    """Plugins that are enabled at every extension point that they implement (`multiPoint`)."""
    points: Mapping[str, PointChoice] = field(default_factory=dict)
    args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Plugin arguments by the name of the plugin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    profiles: Sequence[ProfileConfig] = (ProfileConfig(),)
    queue: QueueConfig = field(default_factory=QueueConfig)
    extenders: Sequence[ExtenderConfig] = ()
    flags: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the configuration file that are also flags of `sampan kube-scheduler`, by the name of the flag."""
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    seed: int | None = None
    """The seed for choosing at random among nodes with the same best score; None takes turns instead."""
    turn_s: float = 0.01
    """How long scheduling continues before it yields to other tasks of the event loop, in seconds."""
    max_bindings: int = 256
    """The maximum number of concurrent bindings."""
