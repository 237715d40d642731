"""Flags of the Kubernetes components that Sampan accepts without effect, so that command lines of the real ones work.

They tune logs, profiles, metrics, queues and clients, or set what Sampan always does. A flag that protects something or
changes an object is not among them: without it the component would not do what was asked, so it is an error. Some of
those are accepted with their default, because that is how Sampan behaves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import click

_SILENT = frozenset(("allow-privileged", "storage-backend", "vmodule"))
"""Flags that need no message: containers may be privileged, and there is one storage backend."""
# fmt: off
_COMMON = frozenset(
    (
        "allow-metric-labels", "allow-metric-labels-manifest", "contention-profiling", "disable-http2-serving",
        "disabled-metrics", "http2-max-streams-per-connection",
        "kube-api-burst", "kube-api-content-type", "kube-api-qps", "log-flush-frequency", "log-json-info-buffer-size",
        "log-json-split-stream", "log-text-info-buffer-size", "log-text-split-stream", "logging-format",
        "permit-address-sharing", "permit-port-sharing", "profiling",
        "show-hidden-metrics-for-version", "vmodule",
    )
)
_DELEGATION = frozenset(
    (
        "authentication-kubeconfig", "authentication-skip-lookup", "authentication-token-webhook-cache-ttl",
        "authentication-tolerate-lookup-failure", "authorization-kubeconfig",
        "authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl", "cert-dir",
        "client-ca-file", "requestheader-allowed-names", "requestheader-client-ca-file",
        "requestheader-extra-headers-prefix", "requestheader-group-headers", "requestheader-uid-headers",
        "requestheader-username-headers",
    )
)
"""Flags about how the secure port of a component authenticates callers. They have no effect, because Sampan asks the
API server of --kubeconfig."""
_API_SERVER = frozenset(
    (
        "aggregator-reject-forwarding-redirect", "allow-privileged", "apiserver-count", "audit-log-batch-buffer-size",
        "audit-log-batch-max-size", "audit-log-batch-max-wait", "audit-log-batch-throttle-burst",
        "audit-log-batch-throttle-enable", "audit-log-batch-throttle-qps", "audit-log-compress", "audit-log-format",
        "audit-log-mode", "audit-log-truncate-enabled", "audit-log-truncate-max-batch-size",
        "audit-log-truncate-max-event-size", "audit-log-version", "audit-webhook-truncate-enabled",
        "audit-webhook-truncate-max-batch-size", "audit-webhook-truncate-max-event-size", "audit-webhook-version",
        "coordinated-leadership-lease-duration",
        "coordinated-leadership-renew-deadline", "coordinated-leadership-retry-period", "debug-socket-path",
        "delete-collection-workers", "enable-aggregator-routing", "enable-garbage-collector", "enable-logs-handler",
        "endpoint-reconciler-type", "etcd-count-metric-poll-period", "etcd-db-metric-poll-interval",
        "etcd-healthcheck-timeout", "etcd-readycheck-timeout", "external-hostname", "goaway-chance",
        "lease-reuse-duration-seconds", "livez-grace-period", "min-request-timeout", "peer-advertise-ip",
        "peer-advertise-port", "request-timeout",
        "service-account-lookup", "shutdown-delay-duration", "shutdown-send-retry-after",
        "shutdown-watch-termination-grace-period", "storage-backend", "storage-initialization-timeout",
        "storage-media-type", "tracing-config-file", "watch-cache", "watch-cache-sizes",
        "default-watch-cache-size",
    )
)
_CONTROLLER_MANAGER = frozenset(
    (
        "attach-detach-reconcile-sync-period", "cidr-allocator-type", "cluster-name", "concurrent-cron-job-syncs",
        "concurrent-daemonset-syncs", "concurrent-deployment-syncs", "concurrent-endpoint-syncs",
        "concurrent-ephemeralvolume-syncs", "concurrent-gc-syncs", "concurrent-horizontal-pod-autoscaler-syncs",
        "concurrent-job-syncs", "concurrent-namespace-syncs", "concurrent-rc-syncs", "concurrent-replicaset-syncs",
        "concurrent-device-taint-eviction-syncs", "concurrent-disruption-syncs", "concurrent-resource-quota-syncs",
        "concurrent-resourceclaim-syncs", "controller-shutdown-timeout", "flex-volume-plugin-dir",
        "concurrent-service-endpoint-syncs",
        "concurrent-serviceaccount-token-syncs", "concurrent-statefulset-syncs",
        "concurrent-ttl-after-finished-syncs", "concurrent-validating-admission-policy-status-syncs",
        "controller-start-interval", "enable-dynamic-provisioning", "enable-garbage-collector",
        "leader-elect-resource-lock", "min-resync-period", "mirroring-concurrent-service-endpoint-syncs",
        "mirroring-endpointslice-updates-batch-period", "namespace-sync-period", "node-sync-period",
        "pvclaimbinder-sync-period", "resource-quota-sync-period",
    )
)
_SCHEDULER = frozenset(("leader-elect-resource-lock", "pod-max-in-unschedulable-pods-duration"))
_KUBELET = frozenset(
    (
        "authentication-token-webhook", "authentication-token-webhook-cache-ttl", "authorization-mode",
        "authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl",
        "cgroup-driver", "container-runtime", "cpu-cfs-quota-period", "cpu-manager-reconcile-period",
        "maximum-dead-containers", "maximum-dead-containers-per-container", "minimum-container-ttl-duration",
        "volume-plugin-dir", "event-burst", "event-qps", "hairpin-mode", "housekeeping-interval",
        "image-service-endpoint", "iptables-drop-bit", "iptables-masquerade-bit", "kernel-memcg-notification",
        "kubelet-cgroups", "make-iptables-util-chains", "max-open-files", "oom-score-adj",
        "pod-infra-container-image", "registry-burst", "registry-qps", "runtime-cgroups",
        "streaming-connection-idle-timeout", "system-cgroups", "volume-stats-agg-period",
    )
)
_FLAGS_BY_COMPONENT = {
    "kube-apiserver": _COMMON | _API_SERVER,
    "kube-controller-manager": _COMMON | _DELEGATION | _CONTROLLER_MANAGER,
    "kube-scheduler": _COMMON | _DELEGATION | _SCHEDULER,
    "kubelet": _COMMON | _KUBELET,
    "kube-proxy": _COMMON | {"boot-id-file", "machine-id-file"},
}
_DEFAULTS_ONLY: dict[str, dict[str, tuple[str, ...]]] = {
    "kube-apiserver": {
        "egress-selector-config-file": ("",), "kubernetes-service-node-port": ("0",),
        "max-connection-bytes-per-sec": ("0",), "service-account-signing-endpoint": ("",),
    },
    "kube-controller-manager": {
        "allow-untagged-cloud": ("false",), "cloud-config": ("",), "cloud-provider": ("", "external"),
        "disable-attach-detach-reconcile-sync": ("false",), "disable-force-detach-on-timeout": ("false",),
        "enable-leader-migration": ("false",), "external-cloud-volume-plugin": ("",),
    },
    "kubelet": {
        "cloud-config": ("",), "cloud-provider": ("",), "cpu-cfs-quota": ("true",), "cpu-manager-policy": ("none",),
        "cpu-manager-policy-options": ("",), "enable-controller-attach-detach": ("true",), "enable-server": ("true",),
        "enforce-node-allocatable": ("pods",), "exit-on-lock-contention": ("false",), "kube-reserved-cgroup": ("",),
        "local-storage-capacity-isolation": ("true",), "lock-file": ("",), "memory-manager-policy": ("none",),
        "protect-kernel-defaults": ("false",), "qos-reserved": ("",), "reserved-cpus": ("",), "reserved-memory": ("",),
        "runonce": ("false",), "system-reserved-cgroup": ("",), "topology-manager-policy": ("none",),
        "topology-manager-policy-options": ("",), "topology-manager-scope": ("container",),
    },
}
"""The values with which a flag is accepted, by component and flag, in lower case."""
# fmt: on


class ComponentCommand(click.Command):
    """A command with the flags of a Kubernetes component. Those without effect are named once on standard error."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {name for parameter in self.params for name in parameter.opts}
        ignored = {f"--{name}" for name in _FLAGS_BY_COMPONENT[str(self.name)]} - own
        words, dropped = drop_flags(drop_defaults(str(self.name), args), ignored)
        warn_without_effect(str(self.name), dropped)
        return super().parse_args(ctx, words)


def component_flags(component: str) -> Collection[str]:
    """Return the names, without dashes, of the flags that a component accepts without effect."""
    return _FLAGS_BY_COMPONENT[component]


def drop_defaults(component: str, words: Sequence[str]) -> list[str]:
    """Return the words of a command line without flags that have their default. Raise click.UsageError for flags that
    Sampan accepts only with their default, and that have another value."""
    words_with_effect: list[str] = []
    remainder = list(reversed(words))
    while remainder:
        word = remainder.pop()
        name, equals, value = word.partition("=")
        accepted = _DEFAULTS_ONLY.get(component, {}).get(name.removeprefix("--"))
        if accepted is None or not name.startswith("--"):
            words_with_effect.append(word)
            continue
        if not equals:
            has_value = bool(remainder) and not remainder[-1].startswith("-")
            value = remainder.pop() if has_value and not _is_boolean(accepted) else "true"
        if value.strip("\"'").lower() not in accepted:
            expected = " or ".join(text or "an empty value" for text in accepted)
            raise click.UsageError(f"{name}: Sampan supports only {expected}, not {value!r}.")
    return words_with_effect


def _is_boolean(accepted: Sequence[str]) -> bool:
    """Whether a flag with these values takes its value only after an equals sign, as in Kubernetes."""
    return accepted[0] in ("true", "false")


def drop_flags(words: Sequence[str], names: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the words of a command line without some flags and their values, and the names of the flags that were
    there."""
    remaining_words: list[str] = []
    dropped: dict[str, None] = {}
    remainder = list(reversed(words))
    while remainder:
        word = remainder.pop()
        name, equals, _ = word.partition("=")
        if name not in names:
            remaining_words.append(word)
            continue
        dropped[name] = None
        if not equals and remainder and not remainder[-1].startswith("-"):
            remainder.pop()
    return remaining_words, list(dropped)


def warn_without_effect(component: str, names: Sequence[str]) -> None:
    shown = [name for name in names if name.removeprefix("--") not in _SILENT]
    if shown:
        verb = "has" if len(shown) == 1 else "have"
        click.echo(f"{component}: {', '.join(shown)} {verb} no effect in Sampan", err=True)
