"""The flags of the kubelet for the node itself: its registration, its capacity, and when it evicts pods."""

from __future__ import annotations

from sampan.cli.flags.flag_table import Flag
from sampan.cli.flags.kubelet import values
from sampan.kubelet.agent.config import HARD_EVICTION

NODE_FLAGS = (
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
)
