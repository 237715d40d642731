"""The flags of the controllers about nodes and services: those of the real controller manager."""

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
    "--allocate-node-cidrs": flags.switch(False, "Give each node a range for its pods."),
    "--cluster-cidr": {"default": "", "metavar": "CIDR[,CIDR]", "help": "What such ranges are cut from."},
    "--node-cidr-mask-size": {"type": int, "default": 0, "metavar": "N", "help": "Their size.  [24, IPv6: 64]"},
    "--node-cidr-mask-size-ipv4": {"type": int, "default": 0, "metavar": "N", "help": "With two families."},
    "--node-cidr-mask-size-ipv6": {"type": int, "default": 0, "metavar": "N", "help": "With two families."},
}
_TIMES: dict[str, dict[str, Any]] = {
    "--node-monitor-period": {"default": "5s", "help": "How often nodes are looked at."},
    "--node-monitor-grace-period": {"default": "50s", "help": "How long a node may be silent."},
    "--node-startup-grace-period": {"default": "1m0s", "help": "How long one may be silent that never spoke."},
    "--route-reconciliation-period": {"default": "10s", "help": "How often routes are looked at."},
    "--endpoint-updates-batch-period": {"default": "0s", "help": "How long to gather changes of pods."},
    "--endpointslice-updates-batch-period": {"default": "0s", "help": "The same, for slices."},
}
_RATES: dict[str, dict[str, Any]] = {
    "--node-eviction-rate": {"type": float, "default": _DEFAULT.node_eviction_rate, "help": "Nodes a second."},
    "--secondary-node-eviction-rate": {
        "type": float,
        "default": _DEFAULT.secondary_node_eviction_rate,
        "help": "The same in a zone of which a great part is not ready.",
    },
    "--unhealthy-zone-threshold": {
        "type": float,
        "default": _DEFAULT.unhealthy_zone_threshold,
        "help": "How great a part that is.",
    },
    "--large-cluster-size-threshold": {
        "type": int,
        "default": _DEFAULT.large_cluster_size_threshold,
        "help": "In smaller zones nobody is evicted then.",
    },
    "--terminated-pod-gc-threshold": {
        "type": int,
        "default": _DEFAULT.terminated_pod_gc_threshold,
        "help": "So many pods that are over are kept; 0 keeps all.",
    },
    "--max-endpoints-per-slice": {"type": int, "default": _DEFAULT.max_endpoints_per_slice, "help": "At most 1000."},
    "--mirroring-max-endpoints-per-subset": {
        "type": int,
        "default": _DEFAULT.mirroring_max_endpoints_per_subset,
        "help": "At most 1000.",
    },
    "--configure-cloud-routes": flags.switch(True, "Whether the cloud's routes follow the ranges of nodes."),
}
_SERVICES: dict[str, dict[str, Any]] = {
    "--service-cluster-ip-range": {"default": "", "metavar": "CIDR[,CIDR]", "help": "No node is given a part of it."}
}


def range_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Those that `sampan up` has too."""
    return _with(_RANGES, command)


def node_controller_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return _with(_RANGES | _TIMES | _RATES | _SERVICES, command)


def node_controller_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of ControllerConfig, from those of the flags that the command has."""
    found: dict[str, Any] = {_name(flag): given[_name(flag)] for flag in (_RANGES | _RATES) if _name(flag) in given}
    for flag in _TIMES:
        if _name(flag) in given:
            found[f"{_name(flag)}_s"] = flags.duration_s(flag, given[_name(flag)])
    for flag in ("--cluster-cidr", "--service-cluster-ip-range"):
        found[_name(flag)] = [text.strip() for text in given.get(_name(flag), "").split(",") if text.strip()]
    _check(found)
    return found


def _check(settings: dict[str, Any]) -> None:
    """What the controllers would stumble over once they run, told by the flag that it comes from."""
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
    made = [click.option(flag, show_default=said["default"] not in ("", 0), **said) for flag, said in options.items()]
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(made), command)


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


__all__ = ["node_controller_options", "node_controller_settings", "range_options"]
