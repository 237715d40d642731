"""The flags of kube-scheduler and `sampan up` for the scheduler, and their conversion to a configuration."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sampan.cli.failures import CliError

if TYPE_CHECKING:
    from sampan.machinery.client import Client
    from sampan.scheduler.config import SchedulerConfig

POLICY_KEY = "policy.cfg"
"""The key of the policy in a ConfigMap."""

_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("--algorithm-provider",),
        {
            "default": "",
            "metavar": "NAME",
            "help": "Predefined set of scheduler plug-ins: DefaultProvider or ClusterAutoscalerProvider.",
        },
    ),
    (
        ("--policy-config-file",),
        {
            "metavar": "F",
            "help": "Scheduler policy file (the classic Policy API) with predicates, priorities and extenders.",
        },
    ),
    (
        ("--policy-configmap",),
        {
            "default": "",
            "metavar": "NAME",
            "help": "Name of a ConfigMap that holds a scheduler policy under the key policy.cfg.",
        },
    ),
    (
        ("--policy-configmap-namespace",),
        {"default": "kube-system", "metavar": "NS", "help": "Namespace of the ConfigMap named by --policy-configmap."},
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    config: SchedulerConfig | None = None
    """None means the default configuration."""
    policy_map: tuple[str, str] | None = None
    """The namespace and name of the ConfigMap with the policy."""


def scheduler_options(config_flag: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the flags. `config_flag` is the flag for a KubeSchedulerConfiguration file."""
    help_text = "A KubeSchedulerConfiguration (v1): profiles, plug-ins, arguments, extenders."
    own = ((config_flag, "scheduler_config"), {"metavar": "F", "help": help_text})

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        options = [
            click.option(*names, show_default=bool(kwargs.get("default")), **kwargs)
            for names, kwargs in (own, *_OPTIONS)
        ]
        return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)

    return decorate


def scheduler_settings(config_flag: str, given: Mapping[str, Any]) -> SchedulerSettings:
    """Return the settings. Raise CliError for invalid ones before anything starts. The modules of the scheduler are
    imported only if they are needed."""
    ways = {
        config_flag: given["scheduler_config"],
        "--algorithm-provider": given["algorithm_provider"],
        "--policy-config-file": given["policy_config_file"],
        "--policy-configmap": given["policy_configmap"],
    }
    chosen = [flag for flag, value in ways.items() if value]
    if len(chosen) > 1:
        raise CliError(f"{chosen[1]}: cannot be given together with {chosen[0]}")
    if given["policy_configmap"]:
        return SchedulerSettings(policy_map=(given["policy_configmap_namespace"], given["policy_configmap"]))
    if given["algorithm_provider"]:
        return SchedulerSettings(config=_provided(given["algorithm_provider"]))
    if given["policy_config_file"]:
        return SchedulerSettings(config=_read("--policy-config-file", given["policy_config_file"], policy_config))
    if given["scheduler_config"]:
        return SchedulerSettings(config=_read(config_flag, given["scheduler_config"], _file_config))
    return SchedulerSettings()


def policy_config(text: str) -> SchedulerConfig:
    from sampan.scheduler.config.policy import config_of, parse_policy

    return config_of(parse_policy(text))


async def policy_of_map(client: Client, where: tuple[str, str]) -> SchedulerConfig:
    """Read the policy in a ConfigMap. Raise CliError if it is invalid, and ApiError if it cannot be read."""
    from sampan.api.types.core_v1 import ConfigMap

    namespace, name = where
    flag = f"--policy-configmap: {namespace}/{name}"
    config_map = await client.of(ConfigMap).get(name, namespace)
    if POLICY_KEY not in config_map.data:
        raise CliError(f"{flag}: missing policy config map value at key {POLICY_KEY!r}")
    return _checked(flag, config_map.data[POLICY_KEY], policy_config)


def _provided(name: str) -> SchedulerConfig:
    from sampan.scheduler.config import SchedulerConfig
    from sampan.scheduler.config.policy import PROVIDERS

    if name not in PROVIDERS:
        providers = ", ".join(PROVIDERS)
        raise CliError(f"--algorithm-provider: there is no {name!r}; known are {providers}")
    return SchedulerConfig(profiles=[PROVIDERS[name]])


def _file_config(text: str) -> SchedulerConfig:
    from sampan.scheduler.config.config_file import parse_text

    return parse_text(text)


def _read(flag: str, path: str, parse: Callable[[str], SchedulerConfig]) -> SchedulerConfig:
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        raise CliError(f"{flag}: cannot read {path}: {cause}") from None
    return _checked(f"{flag}: {path}", text, parse)


def _checked(where: str, text: str, parse: Callable[[str], SchedulerConfig]) -> SchedulerConfig:
    """Parse a configuration, and instantiate its plug-ins once, so that invalid arguments are reported now."""
    from sampan.scheduler.config.config_file import ConfigError
    from sampan.scheduler.config.plugin_args import ArgumentError
    from sampan.scheduler.config.policy import PolicyFileError
    from sampan.scheduler.plugins.registry import UnknownSchedulerPlugin
    from sampan.scheduler.simulation import Simulation

    try:
        config = parse(text)
        for profile in config.profiles:
            Simulation(profile=profile)
    except (ConfigError, PolicyFileError, ArgumentError, UnknownSchedulerPlugin) as error:
        raise CliError(f"{where}: {error}") from None
    return config
