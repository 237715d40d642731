"""The API server: starts its components in order, and stops them."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

from sampan.apiserver.authz import UnionAuthorizer
from sampan.apiserver.authz.modes import Mode
from sampan.apiserver.authz.rbac.bootstrap_policy import reconcile
from sampan.apiserver.bootstrap import SYSTEM, SystemObjects
from sampan.apiserver.components import build_components
from sampan.apiserver.config.config_reload import (
    make_reloading_certificates,
    make_reloading_files,
    make_reloading_proxy_client,
)
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.endpoint_reconciler import EndpointReconciler, server_leases
from sampan.apiserver.http.server import Site
from sampan.apiserver.identity_lease import IdentityLease
from sampan.apiserver.in_process_api import InProcessApiSource
from sampan.apiserver.loopback import LoopbackTransport
from sampan.apiserver.nonresource.start_checks import StartStep
from sampan.apiserver.request.call import UserInfo
from sampan.apiserver.services import ProcessComponents, build_services
from sampan.host.clock import Clock, RealClock
from sampan.machinery.client import Client
from sampan.machinery.telemetry.metrics import Metrics
from sampan.storage.backend import Backend

_RETIREMENT_S = 60
_IDENTITY_INTERVAL_S, _SOLE_IDENTITY_INTERVAL_S = 10.0, 900.0
"""How often the identity lease is renewed. The only server of a store has no other that reads it, so that an idle one
hardly writes."""


class ApiServer:
    """`async with ApiServer(config=…, backend=…, clock=…) as server:` serves until the block is left.

    The caller owns the backend: it must be open before and be closed after.
    """

    def __init__(
        self,
        *,
        config: ServerConfig,
        backend: Backend,
        clock: Clock,
        metrics: Metrics | None = None,
        process: ProcessComponents | None = None,
    ) -> None:
        """`process` has what the server uses of the other components of its process."""
        self.services = services = build_services(
            config=config,
            backend=backend,
            clock=clock,
            metrics=metrics or Metrics(),
            process=process or ProcessComponents(),
        )
        self.components = build_components(services)
        self.config, self.backend, self.clock = config, backend, clock
        self.scheme, self.registry, self.metrics = services.scheme, services.registry, services.metrics
        self.recorder, self.security, self.kubelets = services.recorder, services.security, services.kubelets
        self.upstream, self.pipeline = services.upstream, self.components.pipeline
        self._has_kubelets = asyncio.Event()
        self._running = AsyncExitStack()

    async def __aenter__(self) -> ApiServer:
        services, components = self.services, self.components
        finish, has_system_objects = components.start_checks.finish, self.config.has_system_objects
        async with AsyncExitStack() as running:
            running.push_async_callback(services.upstream.close)  # the background tasks use both until they end
            running.push_async_callback(services.webhooks.close)
            await running.enter_async_context(services.tasks)
            running.enter_context(components.watchdog.watching())
            self._start(components.lag.run())
            if components.audit_backends is not None:
                self._start(components.audit_backends.run())
            self._start(components.rbac_updater.run())
            running.push_async_callback(services.authenticator.tokens.close)
            running.push_async_callback(services.security.authorizer.close)
            self._start(services.token_uses.run(self.pipeline))
            for file in make_reloading_files(self.config, services.oidc, self._use_modes, self.clock):
                self._start(file.run())
            for manifests in self.pipeline.endpoints.admission.manifests:
                await manifests.load(self.registry, self.pipeline.serve_as)
                self._start(manifests.run(self.registry, self.pipeline.serve_as, self.clock))
            running.push_async_callback(components.http.close)
            await components.address.listen(components.http)
            finish(StartStep.LISTENING)
            endpoints = self._make_endpoint_reconciler()
            system_objects = SystemObjects(
                pipeline=self.pipeline,
                cluster_ip_range=self.config.service_cluster_ip_range,
                port=components.address.port,
                endpoints=endpoints,
            )
            if not has_system_objects:
                await system_objects.ensure()
                await components.trust.ensure()
                await components.flow_control.ensure_defaults()
            finish(StartStep.SYSTEM_OBJECTS, StartStep.TRUST, StartStep.FLOW_CONTROL)
            self._start(system_objects.run(RealClock()))
            self._start(components.trust.run())
            self._start_reloading()
            self._start(components.flow_control.run())
            await components.rbac_updater.wait_filled()
            finish(StartStep.INFORMERS)
            if not has_system_objects:
                await reconcile(self.pipeline, services.security.rules, self.config.feature_gates)
            finish(StartStep.ROLES)
            self._start(components.allocation_repair.run())
            self._start(self._run_metrics())
            self._start(components.aggregation.run())
            finish(StartStep.ALLOCATION_REPAIR, StartStep.AGGREGATION)
            self._start(components.definitions.run())
            await components.definitions.wait_synced()
            finish(StartStep.DEFINITIONS)
            await components.storage_readiness.run()
            if not has_system_objects:
                self._start(self._make_identity_lease().run())
            finish(StartStep.IDENTITY)
            await components.aggregation.wait_registered()
            finish(StartStep.REGISTRATION)
            if endpoints is not None and self.backend.is_shared:
                running.push_async_callback(endpoints.withdraw)
            self._running = running.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    @property
    def address(self) -> str:
        """The address at which clients reach the server."""
        return self.components.address.host

    @property
    def secure_port(self) -> int:
        return self.components.address.secure_port

    @property
    def insecure_port(self) -> int:
        return self.components.address.insecure_port

    def serve_metrics(self) -> None:
        """Serve the metrics API at once, because there are kubelets in this process."""
        self._has_kubelets.set()

    def serve_site(self, name: str, site: Site) -> None:
        """Serve a site under /NAME/ of the secure port."""
        self.components.http.sites[name] = site

    def user_api_source(self) -> InProcessApiSource:
        """Return the API for servers in this process that act with the rights of their users."""
        http = self.components.http
        return InProcessApiSource(http=http, pipeline=self.pipeline, tls=lambda: http.tls)

    def loopback(self, user: UserInfo = SYSTEM) -> LoopbackTransport:
        """Return a transport for a client in this process."""
        return LoopbackTransport(pipeline=self.pipeline, user=user)

    def _system_client(self) -> Client:
        return Client(transport=self.loopback(), clock=RealClock(), component="sampan-apiserver")

    def _make_endpoint_reconciler(self) -> EndpointReconciler | None:
        if ipaddress.ip_address(self.address).is_loopback:
            return None
        leases = server_leases(self.backend, self.address)
        port = self.components.address.port
        return EndpointReconciler(client=self._system_client(), leases=leases, address=self.address, port=port)

    def _make_identity_lease(self) -> IdentityLease:
        interval_s = _IDENTITY_INTERVAL_S if self.backend.is_shared else _SOLE_IDENTITY_INTERVAL_S
        return IdentityLease(client=self._system_client(), clock=RealClock(), interval_s=interval_s)

    def _start_reloading(self) -> None:
        """Follow the files of certificates."""
        components = self.components
        for certificates in make_reloading_certificates(
            self.config,
            use_tls=components.http.use_tls,
            use_trust=lambda data: self._start(components.trust.replace(data)),
            use_kubelets=self.kubelets.renew_tls,
        ):
            self._start(certificates.run())
        if self.config.proxy_client is not None:
            renew = components.aggregation.renew_client
            self._start(make_reloading_proxy_client(self.config.proxy_client, renew).run())

    async def _run_metrics(self) -> None:
        from sampan.apiserver.metrics_api.api import MetricsApi
        from sampan.apiserver.metrics_api.resource_metrics import KubeletSummaries

        summaries = KubeletSummaries(upstream=self.upstream, clock=self.clock)
        await MetricsApi(pipeline=self.pipeline, summaries=summaries).run(self._has_kubelets)

    def _use_modes(self, modes: Sequence[Mode]) -> None:
        old = self.security.authorizer.replace(self.services.make_authorizers(modes))
        self._start(_close_later(old))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self.services.tasks.start(work)


async def _close_later(chain: UnionAuthorizer) -> None:
    """Close replaced authorizers after a delay in which the requests that still use them finish."""
    try:
        await asyncio.sleep(_RETIREMENT_S)
    finally:
        await chain.close()
