"""The flags of the kubelet, each with its field in KubeletConfiguration. Flags override fields."""

from __future__ import annotations

import logging
import re
import shlex
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sampan.api import names
from sampan.api.feature_gates import FeatureGates
from sampan.cli.flags import parsers
from sampan.cli.flags.feature_gates import check_gates
from sampan.cli.flags.flag_table import Flag, add_flags
from sampan.cli.flags.kubelet.node import NODE_FLAGS
from sampan.cli.flags.kubelet.pods import POD_FLAGS
from sampan.cli.flags.kubelet.server import SERVER_FLAGS
from sampan.kubelet.agent.config import HARD_EVICTION, AgentConfig
from sampan.kubelet.config import KubeletConfig
from sampan.kubelet.container_config.memory_qos import NONE, TIERED_RESERVATION
from sampan.kubelet.container_config.sysctls import namespace_of, normalize_sysctl
from sampan.machinery.cli_errors import CliError
from sampan.machinery.config_file import ConfigFileError, read_config_file

log = logging.getLogger(__name__)

_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_MAX_SYSCTL_LENGTH = 253
_FORMER_THROTTLING_FACTOR = 0.9
"""The default before v1.37, which configuration files may contain although it has no effect."""

FLAGS_FILE = Path("/etc/kubernetes/kubelet")
_API_VERSION, _KIND = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"


FLAGS = (*NODE_FLAGS, *POD_FLAGS, *SERVER_FLAGS)
_FEATURE_GATES = next(flag for flag in FLAGS if flag.name == "--feature-gates")
_IGNORED_TEXT = """
configMapAndSecretChangeDetectionStrategy containerLogMaxWorkers containerLogMonitorInterval contentType cgroupDriver
cpuCFSQuota cpuCFSQuotaPeriod cpuManagerPolicy cpuManagerPolicyOptions cpuManagerReconcilePeriod
enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler enableProfilingHandler enableServer
enableSystemLogHandler enableSystemLogQuery enforceNodeAllocatable eventBurst eventRecordQPS failCgroupV1 hairpinMode
imageServiceEndpoint iptablesDropBit
iptablesMasqueradeBit kernelMemcgNotification kubeAPIBurst kubeAPIQPS kubeReservedCgroup kubeletCgroups
localStorageCapacityIsolation makeIPTablesUtilChains maxOpenFiles memoryManagerPolicy memorySwap
oomScoreAdj protectKernelDefaults qosReserved
registryBurst registryPullQPS reservedMemory reservedSystemCPUs runOnce showHiddenMetricsForVersion singleProcessOOMKill
streamingConnectionIdleTimeout systemCgroups systemReservedCgroup tlsCurvePreferences
topologyManagerPolicy topologyManagerPolicyOptions topologyManagerScope tracing userNamespaces volumePluginDir
volumeStatsAggPeriod
"""
IGNORED_FIELDS = frozenset(_IGNORED_TEXT.split())
"""The fields of KubeletConfiguration that have no effect; setting one logs a warning."""
_CHECKED_ELSEWHERE = frozenset({"apiVersion", "kind", "authentication", "authorization", "logging"})


def kubelet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags. They have no default for click, as a flag that is not given leaves the configuration file in
    effect."""
    return add_flags(
        replace(flag, default=None, help=f"{flag.help}{_format_default(flag)}") for flag in FLAGS if flag.name
    )(command)


def _format_default(flag: Flag) -> str:
    is_shown = flag.default not in ("", (), {}, 0) and not isinstance(flag.default, dict)
    default = ",".join(flag.default) if isinstance(flag.default, tuple) else flag.default
    return f"  [default: {default}]" if is_shown else ""


def key_of(flag: Flag) -> str:
    """Return the key of a setting: the flag without its dashes, or the field if there is no flag."""
    return flag.name.removeprefix("--") or flag.config_field


def settings(options: Mapping[str, Any], file: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return all settings by key. A flag overrides the field of the configuration file."""
    parsed = {}
    for flag in FLAGS:
        value = options.get(flag.option_name) if flag.name else None
        if value is None and file is not None and flag.config_field:
            value = _get_path(file, flag.config_field)
        parsed[key_of(flag)] = _parse(flag, value if value is not None else flag.default)
    in_file = _parse(_FEATURE_GATES, (file or {}).get("featureGates") or {})
    parsed["feature-gates"] = in_file | parsed["feature-gates"]
    return parsed


def read_config(path: str | None) -> dict[str, Any] | None:
    """Read a KubeletConfiguration file. Raise CliError for unknown fields."""
    if not path:
        return None
    try:
        content = read_config_file(Path(path))
    except ConfigFileError as error:
        raise CliError(f"--config: {path}: {error}") from None
    if not isinstance(content, dict) or (content.get("apiVersion"), content.get("kind")) != (_API_VERSION, _KIND):
        raise CliError(f"--config: {path}: want a {_KIND} of {_API_VERSION}")
    known_fields = {flag.config_field.partition(".")[0] for flag in FLAGS if flag.config_field} | _CHECKED_ELSEWHERE
    if unknown := sorted(set(content) - known_fields - IGNORED_FIELDS):
        raise CliError(f"--config: {path}: unknown fields: {', '.join(unknown)}")
    if ignored := sorted(set(content) & IGNORED_FIELDS):
        log.warning("%s: ignoring fields that have no effect: %s", path, ", ".join(ignored))
    return content


def flags_file(path: Path = FLAGS_FILE) -> list[str]:
    """Return the flags in a file: either words, or values of shell variables as in old packages. Comments are
    skipped."""
    try:
        text = path.read_text()
    except OSError:
        return []
    words: list[str] = []
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        is_variable = bool(equals) and name.isidentifier()
        for word in shlex.split(value if is_variable else line):
            words += shlex.split(word) if is_variable else [word]
    return [word for word in words if word]


def _node_name(override: str) -> str:
    name = (override or socket.gethostname()).strip().lower()
    if errors := names.dns1123_subdomain(name):
        raise CliError(f"--hostname-override: {name!r}: {errors[0]}")
    return name


def agent_config(settings: Mapping[str, Any], root: Path, logs: Path) -> AgentConfig:
    gates = check_gates(settings["feature-gates"])
    return AgentConfig(
        **{flag.target: settings[key_of(flag)] for flag in FLAGS if flag.target},
        name=_node_name(settings["hostname-override"]),
        root=root,
        logs=logs,
        memory_throttling_factor=_throttling_factor(settings["memoryThrottlingFactor"], gates),
        memory_reservation_policy=_reservation_policy(settings["memoryReservationPolicy"], gates),
        default_pod_sysctls=_default_pod_sysctls(settings["defaultPodSysctls"], gates),
        kubelet=KubeletConfig(
            feature_gates=gates,
            longest_pause_s=_longest_pause_s(settings["crashLoopBackOff.maxContainerRestartPeriod"]),
            lease_duration_s=settings["node-lease-duration-seconds"],
            renew_s=settings["node-lease-duration-seconds"] / 4,
            status_s=settings["node-status-update-frequency"],
            report_s=settings["node-status-report-frequency"],
        ),
        node_ips=[parsers.address("--node-ip", address) for address in settings["node-ip"]],
        eviction_hard={
            **(HARD_EVICTION if settings["mergeDefaultEvictionSettings"] else {}),
            **settings["eviction-hard"],
        },
        eviction_soft_grace_s={
            key: parsers.duration_s("--eviction-soft-grace-period", text)
            for key, text in settings["eviction-soft-grace-period"].items()
        },
        resolv_conf=Path(settings["resolv-conf"]),
        static_pod_path=Path(settings["pod-manifest-path"]) if settings["pod-manifest-path"] else None,
        pod_pids=max(settings["pod-max-pids"], 0),
    )


def _throttling_factor(factor: float | None, gates: FeatureGates) -> float | None:
    """Return the factor. Raise CliError with the message of the real kubelet."""
    if factor is None:
        return None
    if not gates.is_enabled("MemoryQoS") and factor != _FORMER_THROTTLING_FACTOR:
        problem = "memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled"
    elif not 0 < factor <= 1:
        problem = f"memoryThrottlingFactor {factor:g} must be greater than 0 and less than or equal to 1.0"
    else:
        return factor
    raise CliError(f"invalid configuration: {problem}")


def _reservation_policy(policy: str, gates: FeatureGates) -> str:
    """Return the policy. Raise CliError with the message of the real kubelet."""
    if policy == TIERED_RESERVATION and not gates.is_enabled("MemoryQoS"):
        problem = f'memoryReservationPolicy "{policy}" requires MemoryQoS feature gate to be enabled'
    elif policy not in (NONE, TIERED_RESERVATION):
        options = f'Valid options are "{NONE}" or "{TIERED_RESERVATION}"'
        problem = f'option "{policy}" specified for memoryReservationPolicy. {options}'
    else:
        return policy
    raise CliError(f"invalid configuration: {problem}")


def _default_pod_sysctls(sysctls: Mapping[str, str], gates: FeatureGates) -> dict[str, str]:
    """Return the sysctls with dots in their names. Raise CliError with the message of the real kubelet."""
    if sysctls and not gates.is_enabled("DefaultPodSysctls"):
        field = "DefaultPodSysctls feature gate is required for Kubelet configuration option defaultPodSysctls"
        raise CliError(f"invalid configuration: {field}")
    normalized: dict[str, str] = {}
    for name, value in sysctls.items():
        dotted = normalize_sysctl(name)
        if len(name) > _MAX_SYSCTL_LENGTH or _SYSCTL.fullmatch(name) is None:
            problem = f'"{name}" is not a valid sysctl name for defaultPodSysctls'
        elif not namespace_of(dotted):
            problem = f'"{name}" is not known to be namespaced for defaultPodSysctls'
        elif dotted in normalized:
            problem = f'duplicate sysctl "{dotted}" found in defaultPodSysctls'
        else:
            normalized[dotted] = value
            continue
        raise CliError(f"invalid configuration: {problem}")
    return normalized


def _longest_pause_s(seconds: float) -> float:
    if not 1 <= seconds <= 300:
        raise CliError("crashLoopBackOff.maxContainerRestartPeriod: must be between 1s and 300s")
    return seconds


# -- values ----------------------------------------------------------------------------------------------------------


def _get_path(file: Mapping[str, Any], path: str) -> Any:
    value: Any = file
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _parse(flag: Flag, value: Any) -> Any:
    assert flag.parse is not None
    try:
        return flag.parse(flag.name, value)
    except (KeyError, TypeError, ValueError):
        raise CliError(f"{flag.name or flag.config_field}: cannot be {value!r}") from None
