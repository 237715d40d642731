"""The flags of the kubelet, each with its field in KubeletConfiguration. Flags override fields."""

from __future__ import annotations

import logging
import shlex
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sampan.api import names
from sampan.cli import flags
from sampan.cli import kubelet_values as values
from sampan.cli.failures import CliError
from sampan.cli.flag_table import Flag, add_flags
from sampan.cli.kubelet_config_fields import UNHEEDED
from sampan.kubelet.agent.config import HARD_EVICTION, AgentConfig
from sampan.kubelet.agent.image_pull_records import PRELOADED
from sampan.kubelet.config import KubeletConfig

log = logging.getLogger(__name__)

FLAGS_FILE = Path("/etc/kubernetes/kubelet")
_API_VERSION, _KIND = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"


FLAGS = (
    Flag(
        name="--hostname-override",
        help="Name of the node. Default: the host name of the machine.",
        default="",
        parse=values.text,
    ),
    Flag(
        name="--node-ip",
        help="IP addresses of the node, comma-separated; one per family.",
        default=(),
        parse=values.words,
    ),
    Flag(
        name="--node-labels",
        help="Labels KEY=VALUE,... that the kubelet sets when it registers the node.",
        default={},
        target="labels",
        parse=values.pairs,
    ),
    Flag(
        name="--register-node",
        help="Register the node with the API server.",
        default=True,
        is_switch=True,
        config_field="registerNode",
        target="registers",
        parse=values.switch,
    ),
    Flag(
        name="--register-with-taints",
        help="Taints KEY=VALUE:EFFECT,... that the kubelet sets when it registers the node.",
        default=(),
        config_field="registerWithTaints",
        target="taints",
        parse=values.taints,
    ),
    Flag(
        name="--register-schedulable",
        help="Register the node as schedulable.",
        default=True,
        is_switch=True,
        target="is_schedulable",
        parse=values.switch,
    ),
    Flag(
        name="--max-pods",
        help="Largest number of pods on the node.",
        default=110,
        type=int,
        config_field="maxPods",
        target="max_pods",
        parse=values.number,
    ),
    Flag(
        name="--pods-per-core",
        help="Largest number of pods per CPU core, within --max-pods; 0 sets no limit.",
        default=0,
        type=int,
        config_field="podsPerCore",
        target="pods_per_core",
        parse=values.number,
    ),
    Flag(
        name="--pod-cidr",
        help="CIDR for pod IPs, used when the node gets no pod CIDR from the control plane.",
        default=(),
        config_field="podCIDR",
        target="pod_cidrs",
        parse=values.words,
    ),
    Flag(
        name="--kube-reserved",
        help="Resources reserved for Kubernetes components, for example cpu=100m,memory=100Mi.",
        default={},
        config_field="kubeReserved",
        target="kube_reserved",
        parse=values.pairs,
    ),
    Flag(
        name="--system-reserved",
        help="Resources reserved for system processes outside Kubernetes, for example cpu=100m,memory=100Mi.",
        default={},
        config_field="systemReserved",
        target="system_reserved",
        parse=values.pairs,
    ),
    Flag(
        name="--eviction-hard",
        help="Thresholds at which pods are evicted immediately, for example memory.available<100Mi.",
        default=HARD_EVICTION,
        config_field="evictionHard",
        parse=values.thresholds,
    ),
    Flag(
        name="--eviction-soft",
        help="Thresholds at which pods are evicted after a grace period, for example memory.available<300Mi.",
        default={},
        config_field="evictionSoft",
        target="eviction_soft",
        parse=values.thresholds,
    ),
    Flag(
        name="--eviction-soft-grace-period",
        help="How long each threshold of --eviction-soft must hold before pods are evicted, for example "
        "memory.available=1m.",
        default={},
        config_field="evictionSoftGracePeriod",
        parse=values.pairs,
    ),
    Flag(
        name="--eviction-max-pod-grace-period",
        help="Longest termination grace period in seconds of a pod evicted by a soft threshold; 0 evicts without "
        "grace.",
        default=0,
        type=int,
        config_field="evictionMaxPodGracePeriod",
        target="eviction_max_pod_grace_s",
        parse=values.number,
    ),
    Flag(
        name="--eviction-minimum-reclaim",
        help="Amount that an eviction must reclaim beyond its threshold, for example imagefs.available=2Gi.",
        default={},
        config_field="evictionMinimumReclaim",
        target="eviction_minimum_reclaim",
        parse=values.pairs,
    ),
    Flag(
        name="--eviction-pressure-transition-period",
        help="How long a node must be free of pressure before its pressure condition is cleared.",
        default="5m0s",
        config_field="evictionPressureTransitionPeriod",
        target="pressure_transition_s",
        parse=values.seconds,
    ),
    Flag(
        name="--cluster-dns",
        help="IP addresses of DNS servers for pods with dnsPolicy ClusterFirst, comma-separated.",
        default=(),
        config_field="clusterDNS",
        target="cluster_dns",
        parse=values.words,
    ),
    Flag(
        name="--cluster-domain",
        help="DNS domain of the cluster, added to the search path of pods.",
        default="cluster.local",
        config_field="clusterDomain",
        target="cluster_domain",
        parse=values.text,
    ),
    Flag(
        name="--resolv-conf",
        help="Resolver configuration file of the node, from which pods get DNS servers and search domains.",
        default="/etc/resolv.conf",
        config_field="resolvConf",
        parse=values.text,
    ),
    Flag(
        name="--serialize-image-pulls",
        help="Pull one image at a time.",
        default=True,
        is_switch=True,
        config_field="serializeImagePulls",
        target="serializes_pulls",
        parse=values.switch,
    ),
    Flag(
        name="--max-parallel-image-pulls",
        help="Largest number of images pulled at the same time; needs --serialize-image-pulls=false. 0 sets no limit.",
        default=0,
        type=int,
        config_field="maxParallelImagePulls",
        target="max_parallel_pulls",
        parse=values.number,
    ),
    Flag(
        name="",
        help="Which pods must have credentials for an image that is already on the node.",
        default=PRELOADED,
        config_field="imagePullCredentialsVerificationPolicy",
        target="image_policy",
        parse=values.image_policy,
    ),
    Flag(
        name="",
        help="Preloaded images that pods may use without credentials.",
        default=(),
        config_field="preloadedImagesVerificationAllowlist",
        target="listed_images",
        parse=values.words,
    ),
    Flag(
        name="--cgroup-root",
        help="Parent cgroup of all pods.",
        default="",
        config_field="cgroupRoot",
        target="cgroup_root",
        parse=values.text,
    ),
    Flag(
        name="--cgroups-per-qos",
        help="Create a cgroup for each QoS class and each pod.",
        default=True,
        is_switch=True,
        config_field="cgroupsPerQOS",
        target="has_cgroups_per_qos",
        parse=values.switch,
    ),
    Flag(
        name="--pod-manifest-path",
        help="Directory or file with manifests of static pods.",
        default="",
        config_field="staticPodPath",
        parse=values.text,
    ),
    Flag(
        name="--manifest-url",
        help="URL from which manifests of static pods are fetched.",
        default="",
        config_field="staticPodURL",
        target="static_url",
        parse=values.text,
    ),
    Flag(
        name="--manifest-url-header",
        help="HTTP headers sent when manifests of static pods are fetched from --manifest-url.",
        default={},
        config_field="staticPodURLHeader",
        target="static_url_headers",
        parse=values.headers,
    ),
    Flag(
        name="--file-check-frequency",
        help="How often the files of static pods are checked for changes.",
        default="20s",
        config_field="fileCheckFrequency",
        target="static_period_s",
        parse=values.seconds,
    ),
    Flag(
        name="--http-check-frequency",
        help="How often --manifest-url is checked for changes.",
        default="20s",
        config_field="httpCheckFrequency",
        target="static_url_period_s",
        parse=values.seconds,
    ),
    Flag(
        name="--node-status-update-frequency",
        help="How often the kubelet computes the status of the node.",
        default="10s",
        config_field="nodeStatusUpdateFrequency",
        parse=values.seconds,
    ),
    Flag(
        name="--node-status-report-frequency",
        help="How often the kubelet reports the status of the node although it has not changed.",
        default="5m0s",
        config_field="nodeStatusReportFrequency",
        parse=values.seconds,
    ),
    Flag(
        name="--node-lease-duration-seconds",
        help="Duration in seconds of the Lease with which the node reports its health.",
        default=40,
        type=int,
        config_field="nodeLeaseDurationSeconds",
        parse=values.number,
    ),
    Flag(
        name="--image-gc-high-threshold",
        help="Disk usage in percent above which unused images are deleted.",
        default=85,
        type=int,
        config_field="imageGCHighThresholdPercent",
        target="image_gc_high",
        parse=values.number,
    ),
    Flag(
        name="--image-gc-low-threshold",
        help="Disk usage in percent down to which unused images are deleted.",
        default=80,
        type=int,
        config_field="imageGCLowThresholdPercent",
        target="image_gc_low",
        parse=values.number,
    ),
    Flag(
        name="--minimum-image-ttl-duration",
        help="Minimum age of an unused image before it may be deleted.",
        default="2m0s",
        config_field="imageMinimumGCAge",
        target="image_min_age_s",
        parse=values.seconds,
    ),
    Flag(
        name="",
        help="How long an image may stay unused before it is deleted; 0 sets no limit.",
        default="0s",
        config_field="imageMaximumGCAge",
        target="image_max_age_s",
        parse=values.seconds,
    ),
    Flag(
        name="--container-log-max-size",
        help="Size at which the log file of a container is rotated.",
        default="10Mi",
        config_field="containerLogMaxSize",
        target="container_log_max_bytes",
        parse=values.size,
    ),
    Flag(
        name="--container-log-max-files",
        help="Number of log files to keep per container.",
        default=5,
        type=int,
        config_field="containerLogMaxFiles",
        target="container_log_max_files",
        parse=values.number,
    ),
    Flag(
        name="--shutdown-grace-period",
        help="How long a node shutdown is delayed so that its pods can terminate.",
        default="0s",
        config_field="shutdownGracePeriod",
        target="shutdown_grace_s",
        parse=values.seconds,
    ),
    Flag(
        name="--shutdown-grace-period-critical-pods",
        help="Part of --shutdown-grace-period that is reserved for critical pods.",
        default="0s",
        config_field="shutdownGracePeriodCriticalPods",
        target="shutdown_grace_critical_s",
        parse=values.seconds,
    ),
    Flag(
        name="",
        help="Grace periods for pods of different priorities during a node shutdown.",
        default=(),
        config_field="shutdownGracePeriodByPodPriority",
        target="shutdown_groups",
        parse=values.shutdown_groups,
    ),
    Flag(
        name="--allowed-unsafe-sysctls",
        help="Unsafe sysctls, or patterns such as net.ipv4.*, that pods may set.",
        default=(),
        config_field="allowedUnsafeSysctls",
        target="allowed_unsafe_sysctls",
        parse=values.words,
    ),
    Flag(
        name="--pod-max-pids",
        help="Largest number of processes in a pod; -1 sets no limit.",
        default=-1,
        type=int,
        config_field="podPidsLimit",
        parse=values.number,
    ),
    Flag(
        name="--seccomp-default",
        help="Use the seccomp profile RuntimeDefault for containers that name no profile.",
        default=False,
        is_switch=True,
        config_field="seccompDefault",
        target="has_default_seccomp",
        parse=values.switch,
    ),
    Flag(
        name="",
        help="Longest back-off between restarts of a container.",
        default="5m0s",
        config_field="crashLoopBackOff.maxContainerRestartPeriod",
        parse=values.seconds,
    ),
    Flag(
        name="",
        help="Keep the default hard eviction thresholds that evictionHard does not name.",
        default=False,
        is_switch=True,
        config_field="mergeDefaultEvictionSettings",
        parse=values.switch,
    ),
    Flag(
        name="",
        help="Largest number of images reported in the status of the node; -1 reports all.",
        default=50,
        type=int,
        config_field="nodeStatusMaxImages",
        target="max_status_images",
        parse=values.number,
    ),
    Flag(
        name="--provider-id",
        help="ID of the machine at its cloud provider, stored in spec.providerID of the node.",
        default="",
        config_field="providerID",
        target="provider_id",
        parse=values.text,
    ),
    Flag(
        name="--allow-privileged",
        help="Allow pods to run privileged containers.",
        default=True,
        is_switch=True,
        target="allows_privileged",
        parse=values.switch,
    ),
    Flag(
        name="--host-network-sources",
        help="Sources (api, file, http) whose pods may use the network of the host; * allows all.",
        default=("*",),
        target="host_network_sources",
        parse=values.words,
    ),
    Flag(
        name="--host-pid-sources",
        help="Sources (api, file, http) whose pods may use the PID namespace of the host; * allows all.",
        default=("*",),
        target="host_pid_sources",
        parse=values.words,
    ),
    Flag(
        name="--host-ipc-sources",
        help="Sources (api, file, http) whose pods may use the IPC namespace of the host; * allows all.",
        default=("*",),
        target="host_ipc_sources",
        parse=values.words,
    ),
    Flag(
        name="--address",
        help="IP address on which the kubelet serves.",
        default="0.0.0.0",
        config_field="address",
        parse=values.text,
    ),
    Flag(
        name="--port",
        help="HTTPS port of the kubelet; 0 disables it.",
        default=10250,
        type=int,
        config_field="port",
        target="port",
        parse=values.number,
    ),
    Flag(
        name="--read-only-port",
        help="Port that serves read-only information over HTTP without authentication; 0 disables it.",
        default=0,
        type=int,
        config_field="readOnlyPort",
        parse=values.number,
    ),
    Flag(
        name="--cadvisor-port",
        help="Port that serves information about the machine and its containers over HTTP; 0 disables it.",
        default=0,
        type=int,
        parse=values.number,
    ),
    Flag(
        name="--healthz-bind-address",
        help="IP address on which the health check of the kubelet is served.",
        default="127.0.0.1",
        config_field="healthzBindAddress",
        parse=values.text,
    ),
    Flag(
        name="--healthz-port",
        help="HTTP port for the health check of the kubelet; 0 disables it.",
        default=10248,
        type=int,
        config_field="healthzPort",
        parse=values.number,
    ),
    Flag(
        name="--enable-debugging-handlers",
        help="Serve logs, exec, attach and port-forward on the HTTPS port.",
        default=True,
        is_switch=True,
        config_field="enableDebuggingHandlers",
        parse=values.switch,
    ),
    Flag(
        name="--tls-cert-file",
        help="Serving certificate of the HTTPS port. Default: a self-signed certificate.",
        default="",
        config_field="tlsCertFile",
        parse=values.text,
    ),
    Flag(
        name="--tls-private-key-file",
        help="Private key that belongs to --tls-cert-file.",
        default="",
        config_field="tlsPrivateKeyFile",
        parse=values.text,
    ),
    Flag(
        name="--client-ca-file",
        help="CA certificates that verify clients of the HTTPS port. Default: the CA of the kubeconfig.",
        default="",
        config_field="authentication.x509.clientCAFile",
        parse=values.text,
    ),
    Flag(
        name="--anonymous-auth",
        help="Accept requests to the HTTPS port without credentials as the user system:anonymous.",
        default=False,
        is_switch=True,
        config_field="authentication.anonymous.enabled",
        parse=values.switch,
    ),
    Flag(
        name="--rotate-certificates",
        help="Request a new client certificate before the current one expires.",
        default=True,
        is_switch=True,
        config_field="rotateCertificates",
        parse=values.switch,
    ),
    Flag(
        name="--rotate-server-certificates",
        help="Request the serving certificate from the cluster, and a new one before it expires.",
        default=False,
        is_switch=True,
        config_field="serverTLSBootstrap",
        parse=values.switch,
    ),
    Flag(
        name="--runtime-request-timeout",
        help="Timeout of requests to the container runtime, except long-running ones.",
        default="2m0s",
        config_field="runtimeRequestTimeout",
        parse=values.seconds,
    ),
    Flag(
        name="--sync-frequency",
        help="How often each pod is synced although nothing has changed.",
        default="1m0s",
        config_field="syncFrequency",
        target="relist_s",
        parse=values.seconds,
    ),
    Flag(
        name="--fail-swap-on",
        help="Accepted for compatibility; swap is not checked.",
        default=False,
        is_switch=True,
        config_field="failSwapOn",
        parse=values.switch,
    ),
    Flag(
        name="--container-runtime-endpoint",
        help="Socket of the CRI runtime, for example unix:///run/containerd/containerd.sock.",
        default="",
        config_field="containerRuntimeEndpoint",
        parse=values.text,
    ),
)
_CHECKED_ELSEWHERE = frozenset({"apiVersion", "kind", "authentication", "authorization", "featureGates", "logging"})


def kubelet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags. They have no default for click, as a flag that is not given leaves the configuration file in
    effect."""
    return add_flags(
        replace(flag, default=None, help=f"{flag.help}{_shown_default(flag)}") for flag in FLAGS if flag.name
    )(command)


def _shown_default(flag: Flag) -> str:
    is_shown = flag.default not in ("", (), {}, 0) and not isinstance(flag.default, dict)
    return f"  [{flag.default}]" if is_shown else ""


def key_of(flag: Flag) -> str:
    """Return the key of a setting: the flag without its dashes, or the field if there is no flag."""
    return flag.name.removeprefix("--") or flag.config_field


def settings(options: Mapping[str, Any], file: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return all settings by key. A flag overrides the field of the configuration file."""
    parsed = {}
    for flag in FLAGS:
        value = options.get(flag.option_name) if flag.name else None
        if value is None and file is not None and flag.config_field:
            value = _inside(file, flag.config_field)
        parsed[key_of(flag)] = _parse(flag, value if value is not None else flag.default)
    return parsed


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
    known_fields = {flag.config_field.partition(".")[0] for flag in FLAGS if flag.config_field} | _CHECKED_ELSEWHERE
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
        **{flag.target: settings[key_of(flag)] for flag in FLAGS if flag.target},
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
        node_ips=[flags.address("--node-ip", address) for address in settings["node-ip"]],
        eviction_hard={
            **(HARD_EVICTION if settings["mergeDefaultEvictionSettings"] else {}),
            **settings["eviction-hard"],
        },
        eviction_soft_grace_s={
            key: flags.duration_s("--eviction-soft-grace-period", text)
            for key, text in settings["eviction-soft-grace-period"].items()
        },
        resolv_conf=Path(settings["resolv-conf"]),
        static_pod_path=Path(settings["pod-manifest-path"]) if settings["pod-manifest-path"] else None,
        pod_pids=max(settings["pod-max-pids"], 0),
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


def _parse(flag: Flag, value: Any) -> Any:
    assert flag.parse is not None
    try:
        return flag.parse(flag.name, value)
    except (KeyError, TypeError, ValueError):
        raise CliError(f"{flag.name or flag.config_field}: cannot be {value!r}") from None
