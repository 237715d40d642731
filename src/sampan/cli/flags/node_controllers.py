"""The flags of kube-controller-manager for the controllers of nodes and services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.cli.flags import parsers
from sampan.cli.flags.flag_table import Flag, add_flags, config_fields
from sampan.controllers.descriptor import ControllerConfig
from sampan.machinery.cli_errors import CliError

_DEFAULT = ControllerConfig()


_RANGES = (
    Flag(
        name="--allocate-node-cidrs",
        help="Allocate a pod CIDR to each node.",
        default=False,
        is_switch=True,
        target="allocate_node_cidrs",
    ),
    Flag(
        name="--cluster-cidr",
        help="CIDR range from which pod CIDRs of nodes are allocated; two for dual stack.",
        default="",
        metavar="CIDR[,CIDR]",
        target="cluster_cidr",
        parse=parsers.words,
    ),
    Flag(
        name="--node-cidr-mask-size",
        help="Prefix length of the pod CIDR of a node in a single-stack cluster. Default: 24 for IPv4, 64 for IPv6.",
        default=0,
        type=int,
        metavar="N",
        target="node_cidr_mask_size",
    ),
    Flag(
        name="--node-cidr-mask-size-ipv4",
        help="Prefix length of the IPv4 pod CIDR of a node in a dual-stack cluster. Default: 24.",
        default=0,
        type=int,
        metavar="N",
        target="node_cidr_mask_size_ipv4",
    ),
    Flag(
        name="--node-cidr-mask-size-ipv6",
        help="Prefix length of the IPv6 pod CIDR of a node in a dual-stack cluster. Default: 64.",
        default=0,
        type=int,
        metavar="N",
        target="node_cidr_mask_size_ipv6",
    ),
)
_TIMES = (
    Flag(
        name="--node-monitor-period",
        help="How often the node controller checks the health of the nodes.",
        default="5s",
        target="node_monitor_period_s",
        parse=parsers.duration_s,
    ),
    Flag(
        name="--node-monitor-grace-period",
        help="How long a node may miss heartbeats before it is marked unhealthy.",
        default="50s",
        target="node_monitor_grace_period_s",
        parse=parsers.duration_s,
    ),
    Flag(
        name="--node-startup-grace-period",
        help="How long a new node may take until its first heartbeat before it is marked unhealthy.",
        default="1m0s",
        target="node_startup_grace_period_s",
        parse=parsers.duration_s,
    ),
    Flag(
        name="--route-reconciliation-period",
        help="How often the cloud provider's routes to nodes are reconciled.",
        default="10s",
        target="route_reconciliation_period_s",
        parse=parsers.duration_s,
    ),
    Flag(
        name="--endpoint-updates-batch-period",
        help="How long pod changes are collected before Endpoints objects are updated.",
        default="0s",
        target="endpoint_updates_batch_period_s",
        parse=parsers.duration_s,
    ),
    Flag(
        name="--endpointslice-updates-batch-period",
        help="How long pod changes are collected before EndpointSlice objects are updated.",
        default="0s",
        target="endpointslice_updates_batch_period_s",
        parse=parsers.duration_s,
    ),
)
_RATES = (
    Flag(
        name="--node-eviction-rate",
        help="Nodes per second whose pods are evicted while their zone is healthy.",
        default=_DEFAULT.node_eviction_rate,
        type=float,
        target="node_eviction_rate",
    ),
    Flag(
        name="--secondary-node-eviction-rate",
        help="Nodes per second whose pods are evicted while their zone is unhealthy.",
        default=_DEFAULT.secondary_node_eviction_rate,
        type=float,
        target="secondary_node_eviction_rate",
    ),
    Flag(
        name="--unhealthy-zone-threshold",
        help="Fraction of nodes that must be NotReady (at least 3 nodes) for a zone to count as unhealthy.",
        default=_DEFAULT.unhealthy_zone_threshold,
        type=float,
        target="unhealthy_zone_threshold",
    ),
    Flag(
        name="--large-cluster-size-threshold",
        help="In unhealthy zones with at most this many nodes, no pods are evicted.",
        default=_DEFAULT.large_cluster_size_threshold,
        type=int,
        target="large_cluster_size_threshold",
    ),
    Flag(
        name="--terminated-pod-gc-threshold",
        help="Number of terminated pods that are kept before the pod garbage collector deletes the oldest; 0 "
        "keeps all.",
        default=_DEFAULT.terminated_pod_gc_threshold,
        type=int,
        target="terminated_pod_gc_threshold",
    ),
    Flag(
        name="--max-endpoints-per-slice",
        help="Largest number of endpoints in one EndpointSlice, 1 to 1000.",
        default=_DEFAULT.max_endpoints_per_slice,
        type=int,
        target="max_endpoints_per_slice",
    ),
    Flag(
        name="--mirroring-max-endpoints-per-subset",
        help="Largest number of endpoints mirrored into EndpointSlices from one Endpoints subset, 1 to 1000.",
        default=_DEFAULT.mirroring_max_endpoints_per_subset,
        type=int,
        target="mirroring_max_endpoints_per_subset",
    ),
    Flag(
        name="--configure-cloud-routes",
        help="Configure routes of the cloud provider for the pod CIDRs of nodes.",
        default=True,
        is_switch=True,
        target="configure_cloud_routes",
    ),
)
_SERVICES = (
    Flag(
        name="--service-cluster-ip-range",
        help="CIDR range of service cluster IPs, which is excluded from the pod CIDRs of nodes.",
        default="",
        metavar="CIDR[,CIDR]",
        target="service_cluster_ip_range",
        parse=parsers.words,
    ),
)


_FLAGS = (*_RANGES, *_TIMES, *_RATES, *_SERVICES)

range_options = add_flags(_RANGES)
"""Adds the flags for pod CIDRs, which `sampan up` has, too."""
node_controller_options = add_flags(_FLAGS)


def node_controller_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of ControllerConfig for those flags that the command has."""
    settings = {"service_cluster_ip_range": []} | config_fields(_FLAGS, options)
    _check(settings)
    return settings


def _check(settings: dict[str, Any]) -> None:
    """Raise CliError for values that would fail once the controllers run."""
    from sampan.controllers.nodes.cidr_sets import InvalidCidr, network_of
    from sampan.controllers.nodes.ipam import ranges_of

    for name in ("max_endpoints_per_slice", "mirroring_max_endpoints_per_subset"):
        if not 1 <= settings.get(name, 1) <= 1000:
            raise CliError(f"--{name.replace('_', '-')}: must be between 1 and 1000")
    for name in ("cluster_cidr", "service_cluster_ip_range"):
        for text in settings[name]:
            try:
                network_of(text)
            except InvalidCidr as error:
                raise CliError(f"--{name.replace('_', '-')}: {error}") from None
    _check_mask_sizes(settings)
    if not settings["allocate_node_cidrs"]:
        return
    try:
        parts = ranges_of(ControllerConfig(**settings))
    except InvalidCidr as error:
        raise CliError(f"--allocate-node-cidrs: {error}") from None
    if full := [str(part.cluster) for part in parts if not len(part)]:
        raise CliError(f"--cluster-cidr: {full[0]} has no room for nodes outside of --service-cluster-ip-range")


def _check_mask_sizes(settings: dict[str, Any]) -> None:
    has_ipv6_only = bool(settings["cluster_cidr"]) and all(":" in text for text in settings["cluster_cidr"])
    longest = {
        "node_cidr_mask_size": 128 if has_ipv6_only else 32,
        "node_cidr_mask_size_ipv4": 32,
        "node_cidr_mask_size_ipv6": 128,
    }
    for name, maximum in longest.items():
        if not 0 <= settings[name] <= maximum:
            raise CliError(
                f"--{name.replace('_', '-')}: {settings[name]} is not a valid prefix length: at most {maximum}"
            )
