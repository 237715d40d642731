"""KubeSchedulerConfiguration v1 files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from sampan.scheduler.config import DEFAULT_PLUGINS, PluginChoice, PointChoice, ProfileConfig, SchedulerConfig
from sampan.scheduler.framework.profile import POINTS
from sampan.scheduler.pod_info import DEFAULT_SCHEDULER
from sampan.scheduler.queue import QueueConfig

API_VERSION, KIND = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"


class ConfigError(ValueError):
    """A file that is no configuration; the message says where and why."""


class _Strict(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _Plugin(_Strict):
    name: str
    weight: int = 0


class _PluginSet(_Strict):
    enabled: list[_Plugin] = []
    disabled: list[_Plugin] = []


class _PluginConfig(_Strict):
    name: str
    args: dict[str, Any] = {}


class _Profile(_Strict):
    schedulerName: str = DEFAULT_SCHEDULER
    percentageOfNodesToScore: int | None = None
    plugins: dict[str, _PluginSet] = {}
    pluginConfig: list[_PluginConfig] = []


class _File(_Strict):
    apiVersion: str
    kind: str
    parallelism: int = 16
    leaderElection: dict[str, Any] = {}
    clientConnection: dict[str, Any] = {}
    enableProfiling: bool = True
    enableContentionProfiling: bool = True
    percentageOfNodesToScore: int | None = None
    """Every node is looked at, whatever this says; likewise `parallelism`."""
    podInitialBackoffSeconds: int = 1
    podMaxBackoffSeconds: int = 10
    profiles: list[_Profile] = []
    extenders: list[dict[str, Any]] = []
    delayCacheUntilActive: bool = False


def read_config(path: Path) -> SchedulerConfig:
    """Raises OSError for a file that cannot be read, ConfigError for one that makes no sense."""
    try:
        value = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {error}") from error
    return parse_config(value)


def parse_config(value: Any) -> SchedulerConfig:
    try:
        found = msgspec.convert(value, _File)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from error
    _check(found)
    return SchedulerConfig(
        profiles=[_profile(one) for one in found.profiles] or [ProfileConfig()],
        queue=QueueConfig(first_backoff_s=found.podInitialBackoffSeconds, most_backoff_s=found.podMaxBackoffSeconds),
    )


def _check(found: _File) -> None:
    if (found.apiVersion, found.kind) != (API_VERSION, KIND):
        raise ConfigError(f"want {KIND} of {API_VERSION}, not {found.kind} of {found.apiVersion}")
    if found.extenders:
        raise ConfigError("extenders: there are none yet")
    if found.podInitialBackoffSeconds <= 0:
        raise ConfigError("podInitialBackoffSeconds: must be greater than 0")
    if found.podMaxBackoffSeconds < found.podInitialBackoffSeconds:
        raise ConfigError("podMaxBackoffSeconds: must be greater than or equal to podInitialBackoffSeconds")
    names = [profile.schedulerName for profile in found.profiles]
    if len(set(names)) != len(names):
        raise ConfigError("profiles: two have the same schedulerName")


def _profile(given: _Profile) -> ProfileConfig:
    known = {*POINTS, "multiPoint"}
    if unknown := sorted(given.plugins.keys() - known):
        raise ConfigError(f"plugins: there is no extension point {unknown[0]!r}")
    return ProfileConfig(
        scheduler_name=given.schedulerName,
        plugins=_everywhere(given.plugins.get("multiPoint", _PluginSet())),
        points={
            point: PointChoice(_choices(found.enabled), [one.name for one in found.disabled])
            for point, found in given.plugins.items()
            if point != "multiPoint"
        },
        args=_args(given.pluginConfig),
    )


def _everywhere(given: _PluginSet) -> Sequence[PluginChoice]:
    """The default ones but those taken away; one that is enabled anew keeps its place."""
    off = {one.name for one in given.disabled}
    anew = {one.name: one for one in _choices(given.enabled)}
    kept = [] if "*" in off else [one for one in DEFAULT_PLUGINS if one.name not in off]
    names = {one.name for one in kept}
    return [*(anew.get(one.name, one) for one in kept), *(one for name, one in anew.items() if name not in names)]


def _choices(given: Sequence[_Plugin]) -> list[PluginChoice]:
    return [PluginChoice(one.name, one.weight) for one in given]


def _args(given: Sequence[_PluginConfig]) -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for one in given:
        if one.name in found:
            raise ConfigError(f"pluginConfig: {one.name} is there twice")
        found[one.name] = one.args
    return found


__all__ = ["ConfigError", "parse_config", "read_config"]
