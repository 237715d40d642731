"""`sampan kube-scheduler`: the scheduler as a process of its own, with the real one's flags."""

from __future__ import annotations

from socket import gethostname
from typing import Any

import click

from sampan.cli.component import Component, component_config, component_options, run_component
from sampan.cli.serving import set_up_logs

NAME = "kube-scheduler"


@click.command(NAME)
@component_options(10259)
def command(**given: Any) -> None:
    """Run the scheduler as a process of its own."""
    set_up_logs(given["verbosity"])

    async def work(component: Component) -> None:
        from sampan.scheduler.scheduler import Scheduler

        scheduler = Scheduler(client=component.client(NAME), clock=component.clock, host=gethostname())
        await scheduler.run()

    run_component(component_config(NAME, given), work, shown={"kubescheduler.config.k8s.io": {}})


__all__ = ["command"]
