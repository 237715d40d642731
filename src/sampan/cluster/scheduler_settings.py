"""The configuration of the scheduler of a cluster, which may be read from a ConfigMap once the API server runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sampan.cluster.errors import ClusterError

if TYPE_CHECKING:
    from sampan.machinery.client import Client
    from sampan.scheduler.config import SchedulerConfig

POLICY_KEY = "policy.cfg"
"""The key of the policy in a ConfigMap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    config: SchedulerConfig | None = None
    """The scheduler configuration; None for the default configuration."""
    policy_map: tuple[str, str] | None = None
    """The namespace and name of the ConfigMap with the policy."""


def policy_config(text: str) -> SchedulerConfig:
    from sampan.scheduler.classic.policy import config_of, parse_policy

    return config_of(parse_policy(text))


async def policy_of_map(client: Client, source_config_map: tuple[str, str]) -> SchedulerConfig:
    """Read the policy in a ConfigMap. Raise ClusterError if it is invalid, and ApiError if it cannot be read."""
    from sampan.api.types.core_v1 import ConfigMap

    namespace, name = source_config_map
    flag = f"--policy-configmap: {namespace}/{name}"
    config_map = await client.for_kind(ConfigMap).get(name, namespace)
    if POLICY_KEY not in config_map.data:
        raise ClusterError(f"{flag}: missing policy config map value at key {POLICY_KEY!r}")
    return parse_and_check_config(flag, config_map.data[POLICY_KEY], policy_config)


def parse_and_check_config(source: str, text: str, parse: Callable[[str], SchedulerConfig]) -> SchedulerConfig:
    """Parse a configuration, and instantiate its plugins once, so that invalid arguments are reported now."""
    from sampan.machinery.config_file import ConfigFileError
    from sampan.scheduler.config.plugin_args import ArgumentError
    from sampan.scheduler.framework.plugin_failure import PluginFailure
    from sampan.scheduler.plugins.registry import UnknownSchedulerPlugin
    from sampan.scheduler.simulation import Simulation

    try:
        config = parse(text)
        for profile in config.profiles:
            Simulation(profile=profile)
    except (ConfigFileError, ArgumentError, PluginFailure, UnknownSchedulerPlugin) as error:
        raise ClusterError(f"{source}: {error}") from None
    return config
