"""The flags of the kubelet, each with its field in KubeletConfiguration. Flags override fields."""

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
from sampan.kubelet.agent.image_pull_records import PRELOADED
from sampan.kubelet.config import KubeletConfig

log = logging.getLogger(__name__)

FLAGS_FILE = Path("/etc/kubernetes/kubelet")
_API_VERSION, _KIND = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"


@dataclass(frozen=True, slots=True)
class _Row:
    flag: str
    """The flag; empty if there is only a field."""
    field: str
    """The field in the configuration file; empty if there is only a flag."""
    kind: str
    default: Any
    help: str


_ROWS = (
    _Row("--hostname-override", "", "text", "", "Name of the node. Default: the host name of the machine."),
    _Row("--node-ip", "", "list", (), "IP addresses of the node, comma-separated; one per family."),
    _Row("--node-labels", "", "map", {}, "Labels KEY=VALUE,... that the kubelet sets when it registers the node."),
    _Row("--register-node", "registerNode", "bool", True, "Register the node with the API server."),
    _Row(
        "--register-with-taints",
        "registerWithTaints",
        "taints",
        (),
        "Taints KEY=VALUE:EFFECT,... that the kubelet sets when it registers the node.",
    ),
    _Row("--register-schedulable", "", "bool", True, "Register the node as schedulable."),
    _Row("--max-pods", "maxPods", "int", 110, "Largest number of pods on the node."),
    _Row(
        "--pods-per-core",
        "podsPerCore",
        "int",
        0,
        "Largest number of pods per CPU core, within --max-pods; 0 sets no limit.",
    ),
    _Row(
        "--pod-cidr",
        "podCIDR",
        "list",
        (),
        "CIDR for pod IPs, used when the node gets no pod CIDR from the control plane.",
    ),
    _Row(
        "--kube-reserved",
        "kubeReserved",
        "map",
        {},
        "Resources reserved for Kubernetes components, for example cpu=100m,memory=100Mi.",
    ),
    _Row(
        "--system-reserved",
        "systemReserved",
        "map",
        {},
        "Resources reserved for system processes outside Kubernetes, for example cpu=100m,memory=100Mi.",
    ),
    _Row(
        "--eviction-hard",
        "evictionHard",
        "limits",
        HARD_EVICTION,
        "Thresholds at which pods are evicted immediately, for example memory.available<100Mi.",
    ),
    _Row(
        "--eviction-soft",
        "evictionSoft",
        "limits",
        {},
        "Thresholds at which pods are evicted after a grace period, for example memory.available<300Mi.",
    ),
    _Row(
        "--eviction-soft-grace-period",
        "evictionSoftGracePeriod",
        "map",
        {},
        (
            "How long each threshold of --eviction-soft must hold before pods are evicted, for example "
            "memory.available=1m."
        ),
    ),
    _Row(
        "--eviction-max-pod-grace-period",
        "evictionMaxPodGracePeriod",
        "int",
        0,
        ("Longest termination grace period in seconds of a pod evicted by a soft threshold; 0 evicts without grace."),
    ),
    _Row(
        "--eviction-minimum-reclaim",
        "evictionMinimumReclaim",
        "map",
        {},
        "Amount that an eviction must reclaim beyond its threshold, for example imagefs.available=2Gi.",
    ),
    _Row(
        "--eviction-pressure-transition-period",
        "evictionPressureTransitionPeriod",
        "time",
        "5m0s",
        "How long a node must be free of pressure before its pressure condition is cleared.",
    ),
    _Row(
        "--cluster-dns",
        "clusterDNS",
        "list",
        (),
        "IP addresses of DNS servers for pods with dnsPolicy ClusterFirst, comma-separated.",
    ),
    _Row(
        "--cluster-domain",
        "clusterDomain",
        "text",
        "cluster.local",
        "DNS domain of the cluster, added to the search path of pods.",
    ),
    _Row(
        "--resolv-conf",
        "resolvConf",
        "text",
        "/etc/resolv.conf",
        "Resolver configuration file of the node, from which pods get DNS servers and search domains.",
    ),
    _Row("--serialize-image-pulls", "serializeImagePulls", "bool", True, "Pull one image at a time."),
    _Row(
        "--max-parallel-image-pulls",
        "maxParallelImagePulls",
        "int",
        0,
        ("Largest number of images pulled at the same time; needs --serialize-image-pulls=false. 0 sets no limit."),
    ),
    _Row(
        "",
        "imagePullCredentialsVerificationPolicy",
        "images",
        PRELOADED,
        "Which pods must have credentials for an image that is already on the node.",
    ),
    _Row(
        "",
        "preloadedImagesVerificationAllowlist",
        "list",
        (),
        "Preloaded images that pods may use without credentials.",
    ),
    _Row("--cgroup-root", "cgroupRoot", "text", "", "Parent cgroup of all pods."),
    _Row("--cgroups-per-qos", "cgroupsPerQOS", "bool", True, "Create a cgroup for each QoS class and each pod."),
    _Row("--pod-manifest-path", "staticPodPath", "text", "", "Directory or file with manifests of static pods."),
    _Row("--manifest-url", "staticPodURL", "text", "", "URL from which manifests of static pods are fetched."),
    _Row(
        "--manifest-url-header",
        "staticPodURLHeader",
        "headers",
        {},
        "HTTP headers sent when manifests of static pods are fetched from --manifest-url.",
    ),
    _Row(
        "--file-check-frequency",
        "fileCheckFrequency",
        "time",
        "20s",
        "How often the files of static pods are checked for changes.",
    ),
    _Row(
        "--http-check-frequency",
        "httpCheckFrequency",
        "time",
        "20s",
        "How often --manifest-url is checked for changes.",
    ),
    _Row(
        "--node-status-update-frequency",
        "nodeStatusUpdateFrequency",
        "time",
        "10s",
        "How often the kubelet computes the status of the node.",
    ),
    _Row(
        "--node-status-report-frequency",
        "nodeStatusReportFrequency",
        "time",
        "5m0s",
        "How often the kubelet reports the status of the node although it has not changed.",
    ),
    _Row(
        "--node-lease-duration-seconds",
        "nodeLeaseDurationSeconds",
        "int",
        40,
        "Duration in seconds of the Lease with which the node reports its health.",
    ),
    _Row(
        "--image-gc-high-threshold",
        "imageGCHighThresholdPercent",
        "int",
        85,
        "Disk usage in percent above which unused images are deleted.",
    ),
    _Row(
        "--image-gc-low-threshold",
        "imageGCLowThresholdPercent",
        "int",
        80,
        "Disk usage in percent down to which unused images are deleted.",
    ),
    _Row(
        "--minimum-image-ttl-duration",
        "imageMinimumGCAge",
        "time",
        "2m0s",
        "Minimum age of an unused image before it may be deleted.",
    ),
    _Row(
        "",
        "imageMaximumGCAge",
        "time",
        "0s",
        "How long an image may stay unused before it is deleted; 0 sets no limit.",
    ),
    _Row(
        "--container-log-max-size",
        "containerLogMaxSize",
        "size",
        "10Mi",
        "Size at which the log file of a container is rotated.",
    ),
    _Row("--container-log-max-files", "containerLogMaxFiles", "int", 5, "Number of log files to keep per container."),
    _Row(
        "--shutdown-grace-period",
        "shutdownGracePeriod",
        "time",
        "0s",
        "How long a node shutdown is delayed so that its pods can terminate.",
    ),
    _Row(
        "--shutdown-grace-period-critical-pods",
        "shutdownGracePeriodCriticalPods",
        "time",
        "0s",
        "Part of --shutdown-grace-period that is reserved for critical pods.",
    ),
    _Row(
        "",
        "shutdownGracePeriodByPodPriority",
        "groups",
        (),
        "Grace periods for pods of different priorities during a node shutdown.",
    ),
    _Row(
        "--allowed-unsafe-sysctls",
        "allowedUnsafeSysctls",
        "list",
        (),
        "Unsafe sysctls, or patterns such as net.ipv4.*, that pods may set.",
    ),
    _Row("--pod-max-pids", "podPidsLimit", "int", -1, "Largest number of processes in a pod; -1 sets no limit."),
    _Row(
        "--seccomp-default",
        "seccompDefault",
        "bool",
        False,
        "Use the seccomp profile RuntimeDefault for containers that name no profile.",
    ),
    _Row(
        "",
        "crashLoopBackOff.maxContainerRestartPeriod",
        "time",
        "5m0s",
        "Longest back-off between restarts of a container.",
    ),
    _Row(
        "",
        "mergeDefaultEvictionSettings",
        "bool",
        False,
        "Keep the default hard eviction thresholds that evictionHard does not name.",
    ),
    _Row(
        "",
        "nodeStatusMaxImages",
        "int",
        50,
        "Largest number of images reported in the status of the node; -1 reports all.",
    ),
    _Row(
        "--provider-id",
        "providerID",
        "text",
        "",
        "ID of the machine at its cloud provider, stored in spec.providerID of the node.",
    ),
    _Row("--allow-privileged", "", "bool", True, "Allow pods to run privileged containers."),
    _Row(
        "--host-network-sources",
        "",
        "list",
        ("*",),
        "Sources (api, file, http) whose pods may use the network of the host; * allows all.",
    ),
    _Row(
        "--host-pid-sources",
        "",
        "list",
        ("*",),
        "Sources (api, file, http) whose pods may use the PID namespace of the host; * allows all.",
    ),
    _Row(
        "--host-ipc-sources",
        "",
        "list",
        ("*",),
        "Sources (api, file, http) whose pods may use the IPC namespace of the host; * allows all.",
    ),
    _Row("--address", "address", "text", "0.0.0.0", "IP address on which the kubelet serves."),
    _Row("--port", "port", "int", 10250, "HTTPS port of the kubelet; 0 disables it."),
    _Row(
        "--read-only-port",
        "readOnlyPort",
        "int",
        0,
        "Port that serves read-only information over HTTP without authentication; 0 disables it.",
    ),
    _Row(
        "--cadvisor-port",
        "",
        "int",
        0,
        "Port that serves information about the machine and its containers over HTTP; 0 disables it.",
    ),
    _Row(
        "--healthz-bind-address",
        "healthzBindAddress",
        "text",
        "127.0.0.1",
        "IP address on which the health check of the kubelet is served.",
    ),
    _Row(
        "--healthz-port", "healthzPort", "int", 10248, "HTTP port for the health check of the kubelet; 0 disables it."
    ),
    _Row(
        "--enable-debugging-handlers",
        "enableDebuggingHandlers",
        "bool",
        True,
        "Serve logs, exec, attach and port-forward on the HTTPS port.",
    ),
    _Row(
        "--tls-cert-file",
        "tlsCertFile",
        "text",
        "",
        "Serving certificate of the HTTPS port. Default: a self-signed certificate.",
    ),
    _Row("--tls-private-key-file", "tlsPrivateKeyFile", "text", "", "Private key that belongs to --tls-cert-file."),
    _Row(
        "--client-ca-file",
        "authentication.x509.clientCAFile",
        "text",
        "",
        "CA certificates that verify clients of the HTTPS port. Default: the CA of the kubeconfig.",
    ),
    _Row(
        "--anonymous-auth",
        "authentication.anonymous.enabled",
        "bool",
        False,
        "Accept requests to the HTTPS port without credentials as the user system:anonymous.",
    ),
    _Row(
        "--rotate-certificates",
        "rotateCertificates",
        "bool",
        True,
        "Request a new client certificate before the current one expires.",
    ),
    _Row(
        "--rotate-server-certificates",
        "serverTLSBootstrap",
        "bool",
        False,
        "Request the serving certificate from the cluster, and a new one before it expires.",
    ),
    _Row(
        "--runtime-request-timeout",
        "runtimeRequestTimeout",
        "time",
        "2m0s",
        "Timeout of requests to the container runtime, except long-running ones.",
    ),
    _Row(
        "--sync-frequency",
        "syncFrequency",
        "time",
        "1m0s",
        "How often each pod is synced although nothing has changed.",
    ),
    _Row("--fail-swap-on", "failSwapOn", "bool", False, "Accepted for compatibility; swap is not checked."),
    _Row(
        "--container-runtime-endpoint",
        "containerRuntimeEndpoint",
        "text",
        "",
        "Socket of the CRI runtime, for example unix:///run/containerd/containerd.sock.",
    ),
)
_CHECKED_ELSEWHERE = frozenset({"apiVersion", "kind", "authentication", "authorization", "featureGates", "logging"})


def kubelet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [_option(row) for row in _ROWS if row.flag]
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


def _option(row: _Row) -> Callable[..., Any]:
    shown = f"  [{row.default}]" if row.default not in ("", (), {}, 0) and not isinstance(row.default, dict) else ""
    if row.kind == "bool":
        return click.option(row.flag, **flags.switch(None, row.help + shown))
    return click.option(row.flag, type=int if row.kind == "int" else str, help=row.help + shown)


def settings(options: Mapping[str, Any], file: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return all settings by flag name without the leading dashes, or by field name if there is no flag."""
    values = {}
    for row in _ROWS:
        name = row.flag.removeprefix("--") or row.field
        value = options.get(name.replace("-", "_"))
        if value is None and file is not None and row.field:
            value = _inside(file, row.field)
        values[name] = _value(row, value) if value is not None else _value(row, row.default)
    return values


def read_config(path: str | None) -> dict[str, Any] | None:
    """Read a KubeletConfiguration file. Raise CliError for unknown fields."""
    if not path:
        return None
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise CliError(f"--config: cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise CliError(f"--config: {path} is not YAML: {error}") from None
    if not isinstance(content, dict) or (content.get("apiVersion"), content.get("kind")) != (_API_VERSION, _KIND):
        raise CliError(f"--config: {path}: want a {_KIND} of {_API_VERSION}")
    known_fields = {row.field.partition(".")[0] for row in _ROWS if row.field} | _CHECKED_ELSEWHERE
    if unknown := sorted(set(content) - known_fields - UNHEEDED):
        raise CliError(f"--config: {path}: unknown fields: {', '.join(unknown)}")
    if unheeded := sorted(set(content) & UNHEEDED):
        log.warning("%s: ignoring fields that have no effect: %s", path, ", ".join(unheeded))
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
    return AgentConfig(
        name=_node_name(settings["hostname-override"]),
        root=root,
        logs=logs,
        kubelet=KubeletConfig(
            longest_pause_s=_longest_pause_s(settings["crashLoopBackOff.maxContainerRestartPeriod"]),
            lease_duration_s=settings["node-lease-duration-seconds"],
            renew_s=settings["node-lease-duration-seconds"] / 4,
            status_s=settings["node-status-update-frequency"],
            report_s=settings["node-status-report-frequency"],
        ),
        registers=settings["register-node"],
        labels=settings["node-labels"],
        taints=settings["register-with-taints"],
        is_schedulable=settings["register-schedulable"],
        node_ips=[flags.address("--node-ip", address) for address in settings["node-ip"]],
        port=settings["port"],
        max_pods=settings["max-pods"],
        pods_per_core=settings["pods-per-core"],
        pod_cidrs=settings["pod-cidr"],
        kube_reserved=settings["kube-reserved"],
        system_reserved=settings["system-reserved"],
        eviction_hard={
            **(HARD_EVICTION if settings["mergeDefaultEvictionSettings"] else {}),
            **settings["eviction-hard"],
        },
        eviction_soft=settings["eviction-soft"],
        eviction_soft_grace_s={
            key: flags.duration_s("--eviction-soft-grace-period", text)
            for key, text in settings["eviction-soft-grace-period"].items()
        },
        eviction_max_pod_grace_s=settings["eviction-max-pod-grace-period"],
        eviction_minimum_reclaim=settings["eviction-minimum-reclaim"],
        pressure_transition_s=settings["eviction-pressure-transition-period"],
        cluster_dns=settings["cluster-dns"],
        cluster_domain=settings["cluster-domain"],
        resolv_conf=Path(settings["resolv-conf"]),
        serializes_pulls=settings["serialize-image-pulls"],
        max_parallel_pulls=settings["max-parallel-image-pulls"],
        image_policy=settings["imagePullCredentialsVerificationPolicy"],
        listed_images=settings["preloadedImagesVerificationAllowlist"],
        cgroup_root=settings["cgroup-root"],
        has_cgroups_per_qos=settings["cgroups-per-qos"],
        static_pod_path=Path(settings["pod-manifest-path"]) if settings["pod-manifest-path"] else None,
        static_url=settings["manifest-url"],
        static_url_headers=settings["manifest-url-header"],
        static_period_s=settings["file-check-frequency"],
        static_url_period_s=settings["http-check-frequency"],
        relist_s=settings["sync-frequency"],
        image_gc_high=settings["image-gc-high-threshold"],
        image_gc_low=settings["image-gc-low-threshold"],
        image_min_age_s=settings["minimum-image-ttl-duration"],
        image_max_age_s=settings["imageMaximumGCAge"],
        container_log_max_bytes=settings["container-log-max-size"],
        container_log_max_files=settings["container-log-max-files"],
        shutdown_grace_s=settings["shutdown-grace-period"],
        shutdown_grace_critical_s=settings["shutdown-grace-period-critical-pods"],
        shutdown_groups=settings["shutdownGracePeriodByPodPriority"],
        allowed_unsafe_sysctls=settings["allowed-unsafe-sysctls"],
        pod_pids=max(settings["pod-max-pids"], 0),
        has_default_seccomp=settings["seccomp-default"],
        max_status_images=settings["nodeStatusMaxImages"],
        provider_id=settings["provider-id"],
        allows_privileged=settings["allow-privileged"],
        host_network_sources=settings["host-network-sources"],
        host_pid_sources=settings["host-pid-sources"],
        host_ipc_sources=settings["host-ipc-sources"],
    )


def _longest_pause_s(seconds: float) -> float:
    if not 1 <= seconds <= 300:
        raise CliError("crashLoopBackOff.maxContainerRestartPeriod: must be between 1s and 300s")
    return seconds


# -- values ----------------------------------------------------------------------------------------------------------


def _inside(file: Mapping[str, Any], path: str) -> Any:
    value: Any = file
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _value(row: _Row, value: Any) -> Any:
    try:
        return READERS[row.kind](row.flag, value)
    except (KeyError, TypeError, ValueError):
        raise CliError(f"{row.flag or row.field}: cannot be {value!r}") from None
