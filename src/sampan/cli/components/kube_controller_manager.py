"""`sampan kube-controller-manager`: the controllers as a separate process, with the flags of the Kubernetes
component."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import click

from sampan.cli.components.component import Component, component_config, component_options, run_component
from sampan.cli.components.controller_accounts import ControllerAccounts
from sampan.cli.flags import parsers
from sampan.cli.flags.controllers import controller_config, controller_options
from sampan.cli.flags.node_controllers import node_controller_options, node_controller_settings
from sampan.cli.flags.table import switch
from sampan.cli.flags.without_effect import ComponentCommand
from sampan.cli.local_cluster.server_process import set_up_logs
from sampan.machinery.client import Client

NAME = "kube-controller-manager"


@click.command(NAME, cls=ComponentCommand)
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    metavar="LIST",
    help="Controllers to run: * for all, NAME to enable one, -NAME to disable one.",
)
@click.option(
    "--use-service-account-credentials",
    show_default=True,
    **switch(False, "Run each controller with the credentials of its own service account."),
)
@controller_options
@node_controller_options
@component_options(10257)
def command(**options: Any) -> None:
    """Run the Kubernetes controllers."""
    set_up_logs(options["verbosity"])
    names = parsers.controllers("--controllers", options["controllers"])
    config = dataclasses.replace(controller_config(options), **node_controller_settings(options))

    async def work(component: Component) -> None:
        from sampan.controllers.manager import selected

        own = selected(names) if options["use_service_account_credentials"] else ()
        async with ControllerAccounts(component=component, controllers=own) as accounts:
            await _manage(component, accounts.client_for)

    async def _manage(component: Component, client_for: Callable[[str], Client]) -> None:
        from sampan.controllers.manager import ControllerManager
        from sampan.machinery.controller import export_controllers

        manager = ControllerManager(client_for=client_for, clock=component.clock, names=names, config=config)
        export_controllers(component.metrics, lambda: manager.runners)
        await manager.run()

    shown = {"controllers": names, **dataclasses.asdict(config)}
    run_component(component_config(NAME, options), work, shown={"kubecontrollermanager.config.k8s.io": shown})
