"""`sampan kube-controller-manager`: the controllers as a separate process, with the flags of the Kubernetes component.

Each controller has a service account, whose token is renewed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import click

from sampan.api.types.authentication_v1 import TokenRequest, TokenRequestSpec
from sampan.api.types.core_v1 import ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.cli.components.component import Component, component_config, component_options, run_component
from sampan.cli.flags import parsers
from sampan.cli.flags.controllers import controller_config, controller_options
from sampan.cli.flags.flag_table import switch
from sampan.cli.flags.node_controllers import node_controller_options, node_controller_settings
from sampan.cli.flags.without_effect import ComponentCommand
from sampan.cli.local_cluster.server_process import set_up_logs
from sampan.controllers.identities import NAMESPACE, account_of
from sampan.controllers.manager import COMPONENT
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport
from sampan.machinery.telemetry.health import PING, HealthCheck

NAME = "kube-controller-manager"
log = logging.getLogger(__name__)
_LIFE_S = 3600
_RENEW_S = _LIFE_S * 0.8
_RETRY_S = 10.0


@click.command(NAME, cls=ComponentCommand)
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    metavar="LIST",
    help="Controllers to run: * for all that are on by default, NAME to enable one, -NAME to disable one. "
    "Those of a cloud provider run in a cloud-controller-manager.",
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
    names = parsers.controllers("--controllers", options["controllers"], has_cloud=False)
    config = dataclasses.replace(controller_config(options), **node_controller_settings(options))

    async def work(component: Component) -> None:
        from sampan.controllers.controller_table import KUBE_CONTROLLERS
        from sampan.controllers.manager import select_controllers

        enabled = select_controllers(names, KUBE_CONTROLLERS) if options["use_service_account_credentials"] else ()
        gates = config.feature_gates
        own = [row.name for row in KUBE_CONTROLLERS if row.name in enabled and row.has_gates(gates)]
        async with ControllerAccounts(component=component, controllers=own) as accounts:
            await _manage(component, accounts.client_for)

    async def _manage(component: Component, client_for: Callable[[str], Client]) -> None:
        from sampan.controllers.controller_table import KUBE_CONTROLLERS
        from sampan.controllers.manager import ControllerManager
        from sampan.machinery.control_loop.controller import export_controllers

        manager = ControllerManager(
            client_for=client_for, clock=component.clock, names=names, config=config, table=KUBE_CONTROLLERS
        )
        component.checks["healthz"] = [HealthCheck(runner.controller.name, PING.probe) for runner in manager.runners]
        export_controllers(component.metrics, lambda: manager.runners)
        await manager.run()

    shown = {"controllers": names, **dataclasses.asdict(config), "feature_gates": dict(config.feature_gates.settings)}
    component = dataclasses.replace(component_config(NAME, options), feature_gates=config.feature_gates)
    run_component(component, work, shown={"kubecontrollermanager.config.k8s.io": shown})


class ControllerAccounts:
    """Clients that act as the service accounts of controllers. Entering the context requests all tokens, creating
    missing service accounts. Controllers that are not listed use the credentials of the process."""

    def __init__(self, *, component: Component, controllers: Sequence[str] = ()) -> None:
        self._component = component
        self._names = sorted({account_of(name) for name in controllers})
        self._own = component.client(COMPONENT)
        self._clients: dict[str, Client] = {}
        self._running = AsyncExitStack()

    def client_for(self, controller: str) -> Client:
        return self._clients.get(account_of(controller), self._own)

    async def __aenter__(self) -> ControllerAccounts:
        async with AsyncExitStack() as running:
            tasks = await running.enter_async_context(asyncio.TaskGroup())
            for name in self._names:
                access = dataclasses.replace(self._component.access, client_cert_pem=b"", client_key_pem=b"", token="")
                access.token = await self._token(name)
                transport = await running.enter_async_context(HttpTransport(access))
                self._clients[name] = Client(
                    transport=transport,
                    clock=self._component.clock,
                    component=COMPONENT,
                    metrics=self._component.requests,
                )
                renewing = tasks.create_task(self._renew(name, access))
                running.callback(renewing.cancel)
            self._running = running.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    async def _renew(self, name: str, access: Access) -> None:
        pause_s = _RENEW_S
        while True:
            await asyncio.sleep(pause_s)
            try:
                access.token, pause_s = await self._token(name), _RENEW_S
            except (errors.ApiError, ConnectionFailed) as failure:
                log.warning("cannot renew the service account token of %s: %s", name, failure)
                pause_s = _RETRY_S

    async def _token(self, name: str) -> str:
        accounts = self._own.for_kind(ServiceAccount)
        request = TokenRequest(spec=TokenRequestSpec(expirationSeconds=_LIFE_S))
        try:
            response = await accounts.create_subresource("token", name, request, NAMESPACE)
        except errors.NotFound:
            with suppress(errors.AlreadyExists):
                await accounts.create(ServiceAccount(metadata=ObjectMeta(name=name, namespace=NAMESPACE)))
            response = await accounts.create_subresource("token", name, request, NAMESPACE)
        return str(response.status.token)
