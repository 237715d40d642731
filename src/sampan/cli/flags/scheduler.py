"""The flags of kube-scheduler and `sampan up` for the scheduler, and their conversion to a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampan.cli.flags.flag_table import Flag, add_flags
from sampan.cluster.scheduler_settings import SchedulerSettings, parse_and_check_config, policy_config
from sampan.machinery.cli_errors import CliError

if TYPE_CHECKING:
    from sampan.scheduler.config import SchedulerConfig


_FLAGS = (
    Flag(
        name="--algorithm-provider",
        help="Predefined set of scheduler plugins: DefaultProvider or ClusterAutoscalerProvider.",
        default="",
        metavar="NAME",
    ),
    Flag(
        name="--policy-config-file",
        help="Scheduler policy file (the classic Policy API) with predicates, priorities and extenders.",
        metavar="F",
    ),
    Flag(
        name="--policy-configmap",
        help="Name of a ConfigMap that holds a scheduler policy under the key policy.cfg.",
        default="",
        metavar="NAME",
    ),
    Flag(
        name="--policy-configmap-namespace",
        help="Namespace of the ConfigMap named by --policy-configmap.",
        default="kube-system",
        metavar="NS",
    ),
)


def scheduler_options(config_flag: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the flags. `config_flag` is the flag for a KubeSchedulerConfiguration file."""
    config = Flag(
        name=config_flag,
        parameter="scheduler_config",
        help="KubeSchedulerConfiguration file (v1) with profiles, plugins, their arguments, and extenders.",
        metavar="F",
    )
    return add_flags((config, *_FLAGS))


def scheduler_settings(config_flag: str, options: Mapping[str, Any]) -> SchedulerSettings:
    """Return the settings. Raise CliError for invalid ones before anything starts. The modules of the scheduler are
    imported only if they are needed."""
    ways = {
        config_flag: options["scheduler_config"],
        "--algorithm-provider": options["algorithm_provider"],
        "--policy-config-file": options["policy_config_file"],
        "--policy-configmap": options["policy_configmap"],
    }
    chosen = [flag for flag, value in ways.items() if value]
    if len(chosen) > 1:
        raise CliError(f"{chosen[1]}: cannot be given together with {chosen[0]}")
    if options["policy_configmap"]:
        return SchedulerSettings(policy_map=(options["policy_configmap_namespace"], options["policy_configmap"]))
    if options["algorithm_provider"]:
        return SchedulerSettings(config=_find_provider_config(options["algorithm_provider"]))
    if options["policy_config_file"]:
        return SchedulerSettings(config=_read("--policy-config-file", options["policy_config_file"], policy_config))
    if options["scheduler_config"]:
        return SchedulerSettings(config=_read(config_flag, options["scheduler_config"], _file_config))
    return SchedulerSettings()


def _find_provider_config(name: str) -> SchedulerConfig:
    from sampan.scheduler.classic.policy import PROVIDERS
    from sampan.scheduler.config import SchedulerConfig

    if name not in PROVIDERS:
        providers = ", ".join(PROVIDERS)
        raise CliError(f"--algorithm-provider: there is no {name!r}; supported: {providers}")
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
    return parse_and_check_config(f"{flag}: {path}", text, parse)
