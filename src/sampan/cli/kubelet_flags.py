"""The flags of the kubelet, each with the field of KubeletConfiguration that says the same; flags go before fields."""

from __future__ import annotations

import functools
import logging
import shlex
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sampan.api import names
from sampan.cli import flags
from sampan.cli.failures import CliError
from sampan.cli.kubelet_config_fields import UNHEEDED
from sampan.cli.kubelet_values import READERS
from sampan.kubelet.agent.config import HARD_EVICTION, AgentConfig
from sampan.kubelet.agent.image_access import PRELOADED
from sampan.kubelet.config import KubeletConfig

log = logging.getLogger(__name__)

FLAGS_FILE = Path("/etc/kubernetes/kubelet")
_API_VERSION, _KIND = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"


@dataclass(frozen=True, slots=True)
class _Row:
    flag: str
    """Empty if only the configuration file has it."""
    field: str
    """Of the configuration file; empty if it has none."""
    kind: str
    default: Any
    help: str


_ROWS = (
    _Row("--hostname-override", "", "text", "", "The node's name.  [the machine's]"),
    _Row("--node-ip", "", "list", (), "The node's addresses."),
    _Row("--node-labels", "", "map", {}, "Labels of the node, K=V,…"),
    _Row("--register-node", "registerNode", "bool", True, "Make the Node object."),
    _Row("--register-with-taints", "registerWithTaints", "taints", (), "K=V:EFFECT,…"),
    _Row("--register-schedulable", "", "bool", True, "Whether pods may be scheduled there at once."),
    _Row("--max-pods", "maxPods", "int", 110, "How many pods the node takes."),
    _Row("--pods-per-core", "podsPerCore", "int", 0, "At most so many for each core; 0: as --max-pods."),
    _Row("--pod-cidr", "podCIDR", "list", (), "For pods, if the node is given no range."),
    _Row("--kube-reserved", "kubeReserved", "map", {}, "Kept for Kubernetes: cpu=100m,memory=100Mi"),
    _Row("--system-reserved", "systemReserved", "map", {}, "Kept for the system."),
    _Row("--eviction-hard", "evictionHard", "limits", HARD_EVICTION, "When pods are evicted at once."),
    _Row("--eviction-soft", "evictionSoft", "limits", {}, "When they are after a time."),
    _Row("--eviction-soft-grace-period", "evictionSoftGracePeriod", "map", {}, "After which."),
    _Row("--eviction-max-pod-grace-period", "evictionMaxPodGracePeriod", "int", 0, "For the pods' ends then."),
    _Row("--eviction-minimum-reclaim", "evictionMinimumReclaim", "map", {}, "What there must be again beyond that."),
    _Row("--eviction-pressure-transition-period", "evictionPressureTransitionPeriod", "time", "5m0s", "Of calm."),
    _Row("--cluster-dns", "clusterDNS", "list", (), "Name servers of the cluster."),
    _Row("--cluster-domain", "clusterDomain", "text", "cluster.local", "The cluster's domain."),
    _Row("--resolv-conf", "resolvConf", "text", "/etc/resolv.conf", "Where the node's name servers are told."),
    _Row("--serialize-image-pulls", "serializeImagePulls", "bool", True, "One image at a time."),
    _Row("--max-parallel-image-pulls", "maxParallelImagePulls", "int", 0, "Where not."),
    _Row("", "imagePullCredentialsVerificationPolicy", "images", PRELOADED, "Who must show that they may have one."),
    _Row("", "preloadedImagesVerificationAllowlist", "list", (), "Images that nobody must show it for."),
    _Row("--cgroup-root", "cgroupRoot", "text", "", "Below which pods have their groups."),
    _Row("--cgroups-per-qos", "cgroupsPerQOS", "bool", True, "A group for each class of service and each pod."),
    _Row("--pod-manifest-path", "staticPodPath", "text", "", "A folder or file with pods of the node's own."),
    _Row("--manifest-url", "staticPodURL", "text", "", "The same, fetched."),
    _Row("--manifest-url-header", "staticPodURLHeader", "headers", {}, "With these headers."),
    _Row("--file-check-frequency", "fileCheckFrequency", "time", "20s", "How often the folder is read."),
    _Row("--http-check-frequency", "httpCheckFrequency", "time", "20s", "How often it is fetched."),
    _Row("--node-status-update-frequency", "nodeStatusUpdateFrequency", "time", "10s", "How often it is worked out."),
    _Row("--node-status-report-frequency", "nodeStatusReportFrequency", "time", "5m0s", "How often told anyway."),
    _Row("--node-lease-duration-seconds", "nodeLeaseDurationSeconds", "int", 40, "Of the lease."),
    _Row("--image-gc-high-threshold", "imageGCHighThresholdPercent", "int", 85, "Of the disk: images are removed"),
    _Row("--image-gc-low-threshold", "imageGCLowThresholdPercent", "int", 80, "until so much is used."),
    _Row("--minimum-image-ttl-duration", "imageMinimumGCAge", "time", "2m0s", "Images so young are kept."),
    _Row("", "imageMaximumGCAge", "time", "0s", "Images so long unused are removed; 0: none."),
    _Row("--container-log-max-size", "containerLogMaxSize", "size", "10Mi", "Then a log is rotated."),
    _Row("--container-log-max-files", "containerLogMaxFiles", "int", 5, "Of a container."),
    _Row("--shutdown-grace-period", "shutdownGracePeriod", "time", "0s", "For pods when the node goes down."),
    _Row("--shutdown-grace-period-critical-pods", "shutdownGracePeriodCriticalPods", "time", "0s", "Of that."),
    _Row("", "shutdownGracePeriodByPodPriority", "groups", (), "The same for each priority."),
    _Row("--allowed-unsafe-sysctls", "allowedUnsafeSysctls", "list", (), "Patterns."),
    _Row("--pod-max-pids", "podPidsLimit", "int", -1, "Processes of a pod; -1: any number."),
    _Row("--seccomp-default", "seccompDefault", "bool", False, "The runtime's profile for who says nothing."),
    _Row("", "crashLoopBackOff.maxContainerRestartPeriod", "time", "5m0s", "The longest pause between restarts."),
    _Row("", "mergeDefaultEvictionSettings", "bool", False, "What evictionHard leaves out is as usual."),
    _Row("", "nodeStatusMaxImages", "int", 50, "That the node tells of; -1: all."),
    _Row("--provider-id", "providerID", "text", "", "What the node is called where it was made."),
    _Row("--allow-privileged", "", "bool", True, "Whether containers may be privileged."),
    _Row("--host-network-sources", "", "list", ("*",), "Whose pods (api, file, http) may use the host's network."),
    _Row("--host-pid-sources", "", "list", ("*",), "Whose see the host's processes."),
    _Row("--host-ipc-sources", "", "list", ("*",), "Whose use the host's ipc."),
    _Row("--address", "address", "text", "0.0.0.0", "Where the kubelet serves."),
    _Row("--port", "port", "int", 10250, "By HTTPS; 0: not at all."),
    _Row("--read-only-port", "readOnlyPort", "int", 0, "By HTTP, for everybody; 0: not at all."),
    _Row("--cadvisor-port", "", "int", 0, "For the pages about the machine; 0: not at all."),
    _Row("--healthz-bind-address", "healthzBindAddress", "text", "127.0.0.1", "Where it says whether it is well."),
    _Row("--healthz-port", "healthzPort", "int", 10248, "For that, by HTTP; 0: not at all."),
    _Row("--enable-debugging-handlers", "enableDebuggingHandlers", "bool", True, "Whether one may look in."),
    _Row("--tls-cert-file", "tlsCertFile", "text", "", "Of the port."),
    _Row("--tls-private-key-file", "tlsPrivateKeyFile", "text", "", "Of the port."),
    _Row(
        "--client-ca-file",
        "authentication.x509.clientCAFile",
        "text",
        "",
        "Who vouches for callers.  [who does for the server]",
    ),
    _Row("--anonymous-auth", "authentication.anonymous.enabled", "bool", False, "Whether callers may be nobody."),
    _Row("--rotate-certificates", "rotateCertificates", "bool", True, "Ask for a new client certificate in time."),
    _Row("--rotate-server-certificates", "serverTLSBootstrap", "bool", False, "Ask for that of the port, too."),
    _Row("--runtime-request-timeout", "runtimeRequestTimeout", "time", "2m0s", "Of calls to the runtime."),
    _Row("--sync-frequency", "syncFrequency", "time", "1m0s", "How often every pod is looked at anyway."),
    _Row("--fail-swap-on", "failSwapOn", "bool", False, "Heeded nowhere: swap is not looked at."),
    _Row("--container-runtime-endpoint", "containerRuntimeEndpoint", "text", "", "Of a CRI runtime."),
)
_CHECKED_ELSEWHERE = frozenset({"apiVersion", "kind", "authentication", "authorization", "featureGates", "logging"})


def kubelet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    made = [_option(row) for row in _ROWS if row.flag]
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(made), command)


def _option(row: _Row) -> Callable[..., Any]:
    shown = f"  [{row.default}]" if row.default not in ("", (), {}, 0) and not isinstance(row.default, dict) else ""
    if row.kind == "bool":
        return click.option(row.flag, **flags.switch(None, row.help + shown))
    return click.option(row.flag, type=int if row.kind == "int" else str, help=row.help + shown)


def settings(given: Mapping[str, Any], file: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Every setting by its flag, without the dashes before it, or by its field where it has no flag."""
    found = {}
    for row in _ROWS:
        name = row.flag.removeprefix("--") or row.field
        said = given.get(name.replace("-", "_"))
        if said is None and file is not None and row.field:
            said = _inside(file, row.field)
        found[name] = _value(row, said) if said is not None else _value(row, row.default)
    return found


def read_config(path: str | None) -> dict[str, Any] | None:
    """A KubeletConfiguration; a field that the kubelet does not know is an error."""
    if not path:
        return None
    import yaml

    try:
        found = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise CliError(f"--config: cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise CliError(f"--config: {path} is not YAML: {error}") from None
    if not isinstance(found, dict) or (found.get("apiVersion"), found.get("kind")) != (_API_VERSION, _KIND):
        raise CliError(f"--config: {path}: want a {_KIND} of {_API_VERSION}")
    known = {row.field.partition(".")[0] for row in _ROWS if row.field} | _CHECKED_ELSEWHERE
    if unknown := sorted(set(found) - known - UNHEEDED):
        raise CliError(f"--config: {path}: unknown fields: {', '.join(unknown)}")
    if unheeded := sorted(set(found) & UNHEEDED):
        log.warning("%s: fields that are not heeded: %s", path, ", ".join(unheeded))
    return found


def flags_file(path: Path = FLAGS_FILE) -> list[str]:
    """Flags that stand in a file: as words, or as values of variables as packages of old had them. Comments are not
    heeded."""
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
    if faults := names.dns1123_subdomain(name):
        raise CliError(f"--hostname-override: {name!r}: {faults[0]}")
    return name


def agent_config(found: Mapping[str, Any], root: Path, logs: Path) -> AgentConfig:
    return AgentConfig(
        name=_node_name(found["hostname-override"]),
        root=root,
        logs=logs,
        kubelet=KubeletConfig(
            longest_pause_s=_longest_pause_s(found["crashLoopBackOff.maxContainerRestartPeriod"]),
            lease_duration_s=found["node-lease-duration-seconds"],
            renew_s=found["node-lease-duration-seconds"] / 4,
            status_s=found["node-status-update-frequency"],
            report_s=found["node-status-report-frequency"],
        ),
        registers=found["register-node"],
        labels=found["node-labels"],
        taints=found["register-with-taints"],
        is_schedulable=found["register-schedulable"],
        node_ips=[flags.address("--node-ip", each) for each in found["node-ip"]],
        port=found["port"],
        max_pods=found["max-pods"],
        pods_per_core=found["pods-per-core"],
        pod_cidrs=found["pod-cidr"],
        kube_reserved=found["kube-reserved"],
        system_reserved=found["system-reserved"],
        eviction_hard={
            **(HARD_EVICTION if found["mergeDefaultEvictionSettings"] else {}),
            **found["eviction-hard"],
        },
        eviction_soft=found["eviction-soft"],
        eviction_soft_grace_s={
            key: flags.duration_s("--eviction-soft-grace-period", text)
            for key, text in found["eviction-soft-grace-period"].items()
        },
        eviction_max_pod_grace_s=found["eviction-max-pod-grace-period"],
        eviction_minimum_reclaim=found["eviction-minimum-reclaim"],
        pressure_transition_s=found["eviction-pressure-transition-period"],
        cluster_dns=found["cluster-dns"],
        cluster_domain=found["cluster-domain"],
        resolv_conf=Path(found["resolv-conf"]),
        serializes_pulls=found["serialize-image-pulls"],
        max_parallel_pulls=found["max-parallel-image-pulls"],
        image_policy=found["imagePullCredentialsVerificationPolicy"],
        listed_images=found["preloadedImagesVerificationAllowlist"],
        cgroup_root=found["cgroup-root"],
        has_cgroups_per_qos=found["cgroups-per-qos"],
        static_folder=Path(found["pod-manifest-path"]) if found["pod-manifest-path"] else None,
        static_url=found["manifest-url"],
        static_url_headers=found["manifest-url-header"],
        static_period_s=found["file-check-frequency"],
        static_url_period_s=found["http-check-frequency"],
        relist_s=found["sync-frequency"],
        image_gc_high=found["image-gc-high-threshold"],
        image_gc_low=found["image-gc-low-threshold"],
        image_min_age_s=found["minimum-image-ttl-duration"],
        image_max_age_s=found["imageMaximumGCAge"],
        container_log_max_bytes=found["container-log-max-size"],
        container_log_max_files=found["container-log-max-files"],
        shutdown_grace_s=found["shutdown-grace-period"],
        shutdown_grace_critical_s=found["shutdown-grace-period-critical-pods"],
        shutdown_groups=found["shutdownGracePeriodByPodPriority"],
        allowed_unsafe_sysctls=found["allowed-unsafe-sysctls"],
        pod_pids=max(found["pod-max-pids"], 0),
        has_default_seccomp=found["seccomp-default"],
        max_told_images=found["nodeStatusMaxImages"],
        provider_id=found["provider-id"],
        allows_privileged=found["allow-privileged"],
        host_network_sources=found["host-network-sources"],
        host_pid_sources=found["host-pid-sources"],
        host_ipc_sources=found["host-ipc-sources"],
    )


def _longest_pause_s(seconds: float) -> float:
    if not 1 <= seconds <= 300:
        raise CliError("crashLoopBackOff.maxContainerRestartPeriod: must be between 1s and 300s")
    return seconds


# -- values ----------------------------------------------------------------------------------------------------------


def _inside(file: Mapping[str, Any], path: str) -> Any:
    found: Any = file
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _value(row: _Row, said: Any) -> Any:
    try:
        return READERS[row.kind](row.flag, said)
    except (KeyError, TypeError, ValueError):
        raise CliError(f"{row.flag or row.field}: cannot be {said!r}") from None


__all__ = ["FLAGS_FILE", "agent_config", "flags_file", "kubelet_options", "read_config", "settings"]
