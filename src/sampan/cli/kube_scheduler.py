"""`sampan kube-scheduler`: the scheduler as a process of its own, with the real one's flags."""

from __future__ import annotations

from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

import click

from sampan.cli.component import Component, component_config, component_options, run_component
from sampan.cli.failures import CliError
from sampan.cli.serving import set_up_logs

if TYPE_CHECKING:
    from sampan.scheduler.config import SchedulerConfig

NAME = "kube-scheduler"


@click.command(NAME)
@click.option("--config", metavar="F", help="A KubeSchedulerConfiguration (v1): profiles, plug-ins, arguments.")
@component_options(10259)
def command(**given: Any) -> None:
    """Run the scheduler as a process of its own."""
    set_up_logs(given["verbosity"])
    settings = _settings(given["config"])

    async def work(component: Component) -> None:
        from sampan.scheduler.export import export_scheduler
        from sampan.scheduler.scheduler import Scheduler

        scheduler = Scheduler(client=component.client(NAME), clock=component.clock, config=settings, host=gethostname())
        export_scheduler(component.metrics, scheduler)
        await scheduler.run()

    names = [profile.scheduler_name for profile in settings.profiles] if settings is not None else ["default-scheduler"]
    run_component(component_config(NAME, given), work, shown={"kubescheduler.config.k8s.io": {"profiles": names}})


def _settings(path: str | None) -> SchedulerConfig | None:
    if not path:
        return None
    from sampan.scheduler.config_file import ConfigError, read_config
    from sampan.scheduler.plugin_args import ArgumentError
    from sampan.scheduler.registry import UnknownPlugin
    from sampan.scheduler.simulation import Simulation

    try:
        found = read_config(Path(path))
        for profile in found.profiles:
            Simulation(profile=profile)  # so that a plug-in that cannot be made is told now
    except OSError as error:
        raise CliError(f"--config: cannot read {path}: {error.strerror}") from None
    except (ConfigError, ArgumentError, UnknownPlugin) as error:
        raise CliError(f"--config: {path}: {error}") from None
    return found


__all__ = ["command"]
