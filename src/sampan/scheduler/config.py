"""How a scheduler is set up: its profiles, their plug-ins and arguments, the queue, leader election."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sampan.scheduler.extenders.extender_config import ExtenderConfig
from sampan.scheduler.pod_info import DEFAULT_SCHEDULER
from sampan.scheduler.queued import QueueConfig


@dataclass(frozen=True, slots=True)
class PluginChoice:
    name: str
    weight: int = 0
    """Of its scores; 0 for the default of 1."""
    plugin: str = ""
    """Which plug-in, where it goes by another name here: so one may be used twice with different arguments."""


@dataclass(frozen=True, slots=True)
class PointChoice:
    """What differs at one extension point: more plug-ins, and some (`*`: all) taken away."""

    enabled: Sequence[PluginChoice] = ()
    disabled: Sequence[str] = ()


DEFAULT_PLUGINS = (
    PluginChoice("SchedulingGates"),
    PluginChoice("PrioritySort"),
    PluginChoice("NodeUnschedulable"),
    PluginChoice("NodeName"),
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
"""Those of the v1.36 default profile in their order, with that for groups of pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileConfig:
    scheduler_name: str = DEFAULT_SCHEDULER
    plugins: Sequence[PluginChoice] = DEFAULT_PLUGINS
    """At every point that they have (multiPoint)."""
    points: Mapping[str, PointChoice] = field(default_factory=dict)
    args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By plug-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    profiles: Sequence[ProfileConfig] = (ProfileConfig(),)
    queue: QueueConfig = field(default_factory=QueueConfig)
    extenders: Sequence[ExtenderConfig] = ()
    flags: Mapping[str, Any] = field(default_factory=dict)
    """What a file says that flags of `sampan kube-scheduler` say too, by their names."""
    seed: int | None = None
    """Equal best nodes are taken at random by this seed; None: in turn."""
    turn_s: float = 0.01
    """How long decisions go on before others have their turn on the loop."""
    most_bindings: int = 256
    """Bindings under way at a time."""


__all__ = ["DEFAULT_PLUGINS", "PluginChoice", "PointChoice", "ProfileConfig", "SchedulerConfig"]
