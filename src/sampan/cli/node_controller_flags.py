"""The flags of kube-controller-manager for the controllers of nodes and services."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click

from sampan.cli import flags
from sampan.cli.failures import CliError
from sampan.controllers.descriptor import ControllerConfig

_DEFAULT = ControllerConfig()


_RANGES: dict[str, dict[str, Any]] = {
    "--allocate-node-cidrs": flags.switch(False, "Allocate a pod CIDR to each node."),
    "--cluster-cidr": {
        "default": "",
        "metavar": "CIDR[,CIDR]",
        "help": "CIDR range from which pod CIDRs of nodes are allocated; two for dual stack.",
    },
    "--node-cidr-mask-size": {
        "type": int,
        "default": 0,
        "metavar": "N",
        "help": (
            "Prefix length of the pod CIDR of a node in a single-stack cluster. Default: 24 for IPv4, 64 for IPv6."
        ),
    },
    "--node-cidr-mask-size-ipv4": {
        "type": int,
        "default": 0,
        "metavar": "N",
        "help": "Prefix length of the IPv4 pod CIDR of a node in a dual-stack cluster. Default: 24.",
    },
    "--node-cidr-mask-size-ipv6": {
        "type": int,
        "default": 0,
        "metavar": "N",
        "help": "Prefix length of the IPv6 pod CIDR of a node in a dual-stack cluster. Default: 64.",
    },
}
_TIMES: dict[str, dict[str, Any]] = {
    "--node-monitor-period": {"default": "5s", "help": "How often the node controller checks the health of the nodes."},
    "--node-monitor-grace-period": {
        "default": "50s",
        "help": "How long a node may miss heartbeats before it is marked unhealthy.",
    },
    "--node-startup-grace-period": {
        "default": "1m0s",
        "help": "How long a new node may take until its first heartbeat before it is marked unhealthy.",
    },
    "--route-reconciliation-period": {
        "default": "10s",
        "help": "How often the cloud provider's routes to nodes are reconciled.",
    },
    "--endpoint-updates-batch-period": {
        "default": "0s",
        "help": "How long pod changes are collected before Endpoints objects are updated.",
    },
    "--endpointslice-updates-batch-period": {
        "default": "0s",
        "help": "How long pod changes are collected before EndpointSlice objects are updated.",
    },
}
_RATES: dict[str, dict[str, Any]] = {
    "--node-eviction-rate": {
        "type": float,
        "default": _DEFAULT.node_eviction_rate,
        "help": "Nodes per second whose pods are evicted while their zone is healthy.",
    },
    "--secondary-node-eviction-rate": {
        "type": float,
        "default": _DEFAULT.secondary_node_eviction_rate,
        "help": "Nodes per second whose pods are evicted while their zone is unhealthy.",
    },
    "--unhealthy-zone-threshold": {
        "type": float,
        "default": _DEFAULT.unhealthy_zone_threshold,
        "help": "Fraction of nodes that must be NotReady (at least 3 nodes) for a zone to count as unhealthy.",
    },
    "--large-cluster-size-threshold": {
        "type": int,
        "default": _DEFAULT.large_cluster_size_threshold,
        "help": "In unhealthy zones with at most this many nodes, no pods are evicted.",
    },
    "--terminated-pod-gc-threshold": {
        "type": int,
        "default": _DEFAULT.terminated_pod_gc_threshold,
        "help": (
            "Number of terminated pods that are kept before the pod garbage collector deletes the oldest; 0 keeps all."
        ),
    },
    "--max-endpoints-per-slice": {
        "type": int,
        "default": _DEFAULT.max_endpoints_per_slice,
        "help": "Largest number of endpoints in one EndpointSlice, 1 to 1000.",
    },
    "--mirroring-max-endpoints-per-subset": {
        "type": int,
        "default": _DEFAULT.mirroring_max_endpoints_per_subset,
        "help": "Largest number of endpoints mirrored into EndpointSlices from one Endpoints subset, 1 to 1000.",
    },
    "--configure-cloud-routes": flags.switch(
        True, "Configure routes of the cloud provider for the pod CIDRs of nodes."
    ),
}
_SERVICES: dict[str, dict[str, Any]] = {
    "--service-cluster-ip-range": {
        "default": "",
        "metavar": "CIDR[,CIDR]",
        "help": "CIDR range of service cluster IPs, which is excluded from the pod CIDRs of nodes.",
    }
}


def range_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags for pod CIDRs, which `sampan up` has, too."""
    return _with(_RANGES, command)


def node_controller_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return _with(_RANGES | _TIMES | _RATES | _SERVICES, command)


def node_controller_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of ControllerConfig for those flags that the command has."""
    settings: dict[str, Any] = {
        _name(flag): options[_name(flag)] for flag in (_RANGES | _RATES) if _name(flag) in options
    }
    for flag in _TIMES:
        if _name(flag) in options:
            settings[f"{_name(flag)}_s"] = flags.duration_s(flag, options[_name(flag)])
    for flag in ("--cluster-cidr", "--service-cluster-ip-range"):
        settings[_name(flag)] = [text.strip() for text in options.get(_name(flag), "").split(",") if text.strip()]
    _check(settings)
    return settings


def _check(settings: dict[str, Any]) -> None:
    """Raise CliError for values that would fail once the controllers run."""
    from sampan.controllers.nodes.ipam import ranges_of
    from sampan.controllers.nodes.ranges import RangeError, network_of

    for name in ("max_endpoints_per_slice", "mirroring_max_endpoints_per_subset"):
        if not 1 <= settings.get(name, 1) <= 1000:
            raise CliError(f"--{name.replace('_', '-')}: must be between 1 and 1000")
    for flag in ("--cluster-cidr", "--service-cluster-ip-range"):
        for text in settings[_name(flag)]:
            try:
                network_of(text)
            except RangeError as error:
                raise CliError(f"{flag}: {error}") from None
    _check_mask_sizes(settings)
    if not settings["allocate_node_cidrs"]:
        return
    try:
        parts = ranges_of(ControllerConfig(**settings))
    except RangeError as error:
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
    for name, most in longest.items():
        if not 0 <= settings[name] <= most:
            raise CliError(f"--{name.replace('_', '-')}: {settings[name]} is no prefix length: at most {most}")


def _with(options: Mapping[str, dict[str, Any]], command: Callable[..., Any]) -> Callable[..., Any]:
    decorators = [
        click.option(flag, show_default=attributes["default"] not in ("", 0), **attributes)
        for flag, attributes in options.items()
    ]
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(decorators), command)


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
