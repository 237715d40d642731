"""KubeSchedulerConfiguration v1 files: every field is read, or rejected by name.

`percentageOfNodesToScore` and `parallelism` are validated but have no effect: every node is evaluated for every pod.
The settings for the kubeconfig and for leader election apply to `sampan kube-scheduler`, whose flags override them;
`sampan up` ignores them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sampan.api.field_errors import FieldError, FieldPath, join_messages
from sampan.machinery.config_file import ConfigFileError, convert_config, decode_config
from sampan.scheduler.cache.pod_info import DEFAULT_SCHEDULER
from sampan.scheduler.config.scheduler_config import (
    DEFAULT_PLUGINS,
    PluginChoice,
    PointChoice,
    ProfileConfig,
    SchedulerConfig,
)
from sampan.scheduler.extenders.extender_config import read_extenders
from sampan.scheduler.framework.extension_points import POINTS
from sampan.scheduler.scheduling_queue import QueueConfig

log = logging.getLogger(__name__)

API_VERSION, KIND = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"

_REMOVED_PLUGINS = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
"""Plugins that existed in earlier versions of Kubernetes only."""


class _StrictStruct(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _Plugin(_StrictStruct):
    name: str
    weight: int = 0


class _PluginSet(_StrictStruct):
    enabled: list[_Plugin] = []
    disabled: list[_Plugin] = []


class _PluginConfig(_StrictStruct):
    name: str
    args: dict[str, Any] = {}


class _Profile(_StrictStruct):
    schedulerName: str = DEFAULT_SCHEDULER
    percentageOfNodesToScore: int | None = None
    plugins: dict[str, _PluginSet] = {}
    pluginConfig: list[_PluginConfig] = []


class _LeaderElection(_StrictStruct):
    leaderElect: bool = True
    leaseDuration: str = "15s"
    renewDeadline: str = "10s"
    retryPeriod: str = "2s"
    resourceLock: str = "leases"
    resourceName: str = "kube-scheduler"
    resourceNamespace: str = "kube-system"


class _ClientConnection(_StrictStruct):
    kubeconfig: str = ""
    acceptContentTypes: str = ""
    contentType: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50
    burst: int = 100


class _ConfigurationFile(_StrictStruct):
    apiVersion: str
    kind: str
    parallelism: int = 16
    leaderElection: _LeaderElection = msgspec.field(default_factory=_LeaderElection)
    clientConnection: _ClientConnection = msgspec.field(default_factory=_ClientConnection)
    enableProfiling: bool = True
    enableContentionProfiling: bool = True
    percentageOfNodesToScore: int | None = None
    podInitialBackoffSeconds: int = 1
    podMaxBackoffSeconds: int = 10
    profiles: list[_Profile] = []
    extenders: list[dict[str, Any]] = []
    delayCacheUntilActive: bool = False


def parse_text(text: str) -> SchedulerConfig:
    """Parse a YAML configuration file; raise ConfigFileError if it is invalid."""
    return parse_config(decode_config(text))


def parse_config(value: Any) -> SchedulerConfig:
    _check_kind(value)
    file = convert_config(value, _ConfigurationFile)
    errors = _check(file)
    if errors:
        raise ConfigFileError(join_messages([str(field_error) for field_error in errors]))
    _log_ignored_settings(file)
    return SchedulerConfig(
        profiles=[_profile(profile) for profile in file.profiles] or [ProfileConfig()],
        queue=QueueConfig(first_backoff_s=file.podInitialBackoffSeconds, max_backoff_s=file.podMaxBackoffSeconds),
        extenders=read_extenders(file.extenders, ConfigFileError),
        flags=_flags(file),
    )


def _flags(file: _ConfigurationFile) -> dict[str, Any]:
    """Return the settings that are also command-line flags.

    `resourceLock` is omitted because it can only be "leases"; `qps` and `burst` are omitted because rate limiting is
    left to the server.
    """
    election = file.leaderElection
    return {
        "kubeconfig": file.clientConnection.kubeconfig or None,
        "leader_elect": election.leaderElect,
        "leader_elect_lease_duration": election.leaseDuration,
        "leader_elect_renew_deadline": election.renewDeadline,
        "leader_elect_retry_period": election.retryPeriod,
        "leader_elect_resource_name": election.resourceName,
        "leader_elect_resource_namespace": election.resourceNamespace,
    }


def _check_kind(value: Any) -> None:
    type_meta = (value.get("apiVersion"), value.get("kind")) if isinstance(value, dict) else (None, None)
    if type_meta != (API_VERSION, KIND):
        raise ConfigFileError(f"want {KIND} of {API_VERSION}, not {type_meta[1]} of {type_meta[0]}")


def _log_ignored_settings(file: _ConfigurationFile) -> None:
    percentages = [file.percentageOfNodesToScore, *(item.percentageOfNodesToScore for item in file.profiles)]
    if any(item is not None for item in percentages):
        log.info("percentageOfNodesToScore has no effect: the scheduler always evaluates every node")


# -- validation ------------------------------------------------------------------------------------------------------


def _check(file: _ConfigurationFile) -> list[FieldError]:
    errors = _check_connection(file)
    if file.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        errors.append(FieldError.invalid("parallelism", file.parallelism, detail))
    errors += _check_profiles(file.profiles)
    errors += _check_percentage(FieldPath("percentageOfNodesToScore"), file.percentageOfNodesToScore)
    first, maximum = file.podInitialBackoffSeconds, file.podMaxBackoffSeconds
    if first <= 0:
        errors.append(FieldError.invalid("podInitialBackoffSeconds", first, "must be greater than 0"))
    if maximum < first:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.append(FieldError.invalid("podMaxBackoffSeconds", maximum, detail))
    return errors


def _check_connection(file: _ConfigurationFile) -> list[FieldError]:
    errors = []
    burst = file.clientConnection.burst
    if burst < 0:
        errors.append(FieldError.invalid("clientConnection.burst", burst, "must be non-negative"))
    election = file.leaderElection
    if election.leaderElect and election.resourceLock != "leases":
        detail = 'resourceLock value must be "leases"'
        errors.append(FieldError.invalid("leaderElection.resourceLock", election.resourceLock, detail))
    return errors


def _check_profiles(profiles: Sequence[_Profile]) -> list[FieldError]:
    errors: list[FieldError] = []
    path, indexes = FieldPath("profiles"), dict[str, int]()
    for index, profile in enumerate(profiles):
        errors += _check_profile(path[index], profile)
        if profile.schedulerName in indexes:
            errors.append(
                FieldError.duplicate(
                    path[index] / "schedulerName", str(path[indexes[profile.schedulerName]] / "schedulerName")
                )
            )
        indexes[profile.schedulerName] = index
    if profiles:
        errors += _check_queue_sort(path, profiles)
    return errors


def _check_profile(path: FieldPath, profile: _Profile) -> list[FieldError]:
    errors = [] if profile.schedulerName else [FieldError.required(path / "schedulerName")]
    errors += _check_percentage(path / "percentageOfNodesToScore", profile.percentageOfNodesToScore)
    for point, chosen in profile.plugins.items():
        point_path = path / "plugins" / point
        if point not in POINTS and point != "multiPoint":
            errors.append(FieldError.not_supported(point_path, point, [*POINTS, "multiPoint"]))
        errors += [
            _removed_plugin_error(point_path / "enabled", index, plugin.name)
            for index, plugin in enumerate(chosen.enabled)
            if plugin.name in _REMOVED_PLUGINS
        ]
    names: set[str] = set()
    for index, config in enumerate(profile.pluginConfig):
        if config.name in names:
            errors.append(FieldError.duplicate(path / "pluginConfig", config.name))
        names.add(config.name)
        if config.name in _REMOVED_PLUGINS:
            errors.append(_removed_plugin_error(path / "pluginConfig", index, config.name))
    return errors


def _removed_plugin_error(path: FieldPath, index: int, name: str) -> FieldError:
    detail = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return FieldError.invalid(path[index], name, detail)


def _check_percentage(path: FieldPath, percentage: int | None) -> list[FieldError]:
    if percentage is None or 0 <= percentage <= 100:
        return []
    return [FieldError.invalid(path, percentage, "not in valid range [0-100]")]


def _check_queue_sort(path: FieldPath, profiles: Sequence[_Profile]) -> list[FieldError]:
    """Validate the queueSort plugins, which all profiles share because there is only one queue."""
    errors = []
    first = profiles[0].plugins.get("queueSort", _PluginSet())
    if len(first.enabled) > 1:
        detail = "only one queue sort plugin can be enabled"
        errors.append(FieldError.invalid(path[0] / "plugins" / "queueSort" / "Enabled", len(first.enabled), detail))
    for index, profile in enumerate(profiles[1:], 1):
        other = profile.plugins.get("queueSort", _PluginSet())
        if other != first:
            value = msgspec.to_builtins(other)
            detail = "must be the same for all profiles"
            errors.append(FieldError.invalid(path[index] / "plugins" / "queueSort", value, detail))
    return errors


# -- conversion ------------------------------------------------------------------------------------------------------


def _profile(profile: _Profile) -> ProfileConfig:
    return ProfileConfig(
        scheduler_name=profile.schedulerName,
        plugins=_multi_point(profile.plugins.get("multiPoint", _PluginSet())),
        points={
            point: PointChoice(_choices(plugin_set.enabled), [plugin.name for plugin in plugin_set.disabled])
            for point, plugin_set in profile.plugins.items()
            if point != "multiPoint"
        },
        args=_args(profile.pluginConfig),
    )


def _multi_point(plugin_set: _PluginSet) -> Sequence[PluginChoice]:
    """Return the default plugins without the disabled ones; a default plugin that is enabled again keeps its
    position.
    """
    off = {plugin.name for plugin in plugin_set.disabled}
    enabled = {plugin.name: plugin for plugin in _choices(plugin_set.enabled)}
    remaining = [] if "*" in off else [plugin for plugin in DEFAULT_PLUGINS if plugin.name not in off]
    names = {plugin.name for plugin in remaining}
    return [
        *(enabled.get(plugin.name, plugin) for plugin in remaining),
        *(plugin for name, plugin in enabled.items() if name not in names),
    ]


def _choices(plugins: Sequence[_Plugin]) -> list[PluginChoice]:
    return [PluginChoice(plugin.name, plugin.weight) for plugin in plugins]


def _args(configs: Sequence[_PluginConfig]) -> Mapping[str, Mapping[str, Any]]:
    return {config.name: config.args for config in configs}
