"""Service accounts of the controllers in kube-controller-manager, with tokens that are renewed."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress

from sampan.api.types.authentication_v1 import TokenRequest, TokenRequestSpec
from sampan.api.types.core_v1 import ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.cli.components.component import Component
from sampan.controllers.identities import NAMESPACE, account_of
from sampan.controllers.manager import COMPONENT
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.client.access import Access
from sampan.machinery.client.http import HttpTransport

log = logging.getLogger(__name__)

_LIFE_S = 3600
_RENEW_S = _LIFE_S * 0.8
_RETRY_S = 10.0


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
                self._clients[name] = Client(transport=transport, clock=self._component.clock, component=COMPONENT)
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
        accounts = self._own.of(ServiceAccount)
        request = TokenRequest(spec=TokenRequestSpec(expirationSeconds=_LIFE_S))
        try:
            response = await accounts.create_subresource("token", name, request, NAMESPACE)
        except errors.NotFound:
            with suppress(errors.AlreadyExists):
                await accounts.create(ServiceAccount(metadata=ObjectMeta(name=name, namespace=NAMESPACE)))
            response = await accounts.create_subresource("token", name, request, NAMESPACE)
        return str(response.status.token)
