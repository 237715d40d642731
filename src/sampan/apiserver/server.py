"""The assembly of the API server: storage, registry, pipeline and listeners."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sampan.api.scheme import Scheme, builtin_scheme
from sampan.api.types.core_v1 import Secret
from sampan.apiserver.admission.framework.chain import AdmissionChain
from sampan.apiserver.admission.plugins import default_plugins
from sampan.apiserver.aggregation.controller import AggregationController
from sampan.apiserver.authn.assembly import account_keys, audiences, authenticators, oidc_tokens
from sampan.apiserver.authn.cluster_authentication_trust import ClusterAuthenticationTrust, trust_data
from sampan.apiserver.authn.legacy_tokens import record_use
from sampan.apiserver.authz import Authorizer, UnionAuthorizer
from sampan.apiserver.authz.modes import Mode, make_authorizers
from sampan.apiserver.authz.node import NodeGraph
from sampan.apiserver.authz.rbac import RbacIndex, RbacIndexUpdater
from sampan.apiserver.authz.rbac.bootstrap_policy import reconcile
from sampan.apiserver.bootstrap import SYSTEM, SystemObjects
from sampan.apiserver.config.config_reload import (
    make_reloading_certificates,
    make_reloading_files,
    make_reloading_proxy_client,
)
from sampan.apiserver.config.server_config import AuditConfig, ServerConfig
from sampan.apiserver.customresources import CustomResourceMetrics, DefinitionController
from sampan.apiserver.endpoint_reconciler import EndpointReconciler, server_leases
from sampan.apiserver.endpoints import ApiEndpoints
from sampan.apiserver.flowcontrol import Fairness, FlowControlController
from sampan.apiserver.flowcontrol.fairness import count_seats, export_fairness
from sampan.apiserver.http.connection_limits import HttpLimits
from sampan.apiserver.http.server import HttpServer, Listener, Site
from sampan.apiserver.http.tls import tls_context
from sampan.apiserver.identity_lease import IdentityLease
from sampan.apiserver.in_process_api import InProcessApiSource
from sampan.apiserver.loopback import LoopbackTransport
from sampan.apiserver.metrics import RequestMetrics, export_storage
from sampan.apiserver.nonresource import NonResourceHandler, nonresource_handlers
from sampan.apiserver.nonresource.health import StorageReadiness
from sampan.apiserver.nonresource.server_info import OpenIdHandler
from sampan.apiserver.nonresource.start_checks import StartChecks, StartStep
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.proxy.kubelets import KubeletAccess, Kubelets
from sampan.apiserver.proxy.upstream import UpstreamClient
from sampan.apiserver.registry.allocation import AllocationRepair, ServiceRanges
from sampan.apiserver.registry.registry import AuthServices, Registry
from sampan.apiserver.request.call import MASTERS, UserInfo, request_in_frame
from sampan.apiserver.webhooks.client import WebhookClients
from sampan.host.background_tasks import BackgroundTasks
from sampan.host.clock import Clock, RealClock
from sampan.machinery.client import Client
from sampan.machinery.pki.token_signer import TokenSigner
from sampan.machinery.telemetry.build_info import export_build_info
from sampan.machinery.telemetry.feature_gates import export_feature_gates
from sampan.machinery.telemetry.flight_recorder import FlightRecorder
from sampan.machinery.telemetry.health import HealthCheck
from sampan.machinery.telemetry.loop_watchdog import LoopWatchdog
from sampan.machinery.telemetry.metrics import LAG_INTERVAL_S, LoopLag, Metrics, export_process
from sampan.storage.backend import Backend

if TYPE_CHECKING:
    from sampan.apiserver.audit import AuditBackends, PolicyAuditor

log = logging.getLogger(__name__)

_RETIREMENT_S = 60
_IDENTITY_INTERVAL_S, _SOLE_IDENTITY_INTERVAL_S = 10.0, 900.0
"""How often the identity lease is renewed. The only server of a store has no other that reads it, so that an idle one
hardly writes."""
INSECURE_USER = UserInfo("system:unsecured", groups=(MASTERS, "system:authenticated"))


class ListenError(OSError):
    """The server cannot listen on an address and port."""

    def __init__(self, error: OSError, listener: Listener) -> None:
        super().__init__(error.errno, error.strerror)
        self.host, self.port, self.is_secure = listener.host, listener.port, listener.tls is not None


class ApiServer:
    """`async with ApiServer(config=…, backend=…, clock=…) as server:` serves until the block is left.

    The caller owns the backend: it must be open before and be closed after.
    """

    def __init__(self, *, config: ServerConfig, backend: Backend, clock: Clock, metrics: Metrics | None = None) -> None:
        self.config, self.backend, self.clock = config, backend, clock
        self.scheme: Scheme = builtin_scheme(config.runtime_config)
        self.secure_port = self.insecure_port = 0
        self._has_kubelets = asyncio.Event()
        self.recorder = FlightRecorder(clock=clock)
        self.debug: dict[str, NonResourceHandler] = {}
        """Debug handlers of components in this process, by path below /debug."""
        self.component_failures: Callable[[], Mapping[str, str]] = dict
        """Returns why each of the other components in this process is failed, or an empty string if it is not. They are
        reported beside the health checks, and the server is ready without them."""
        self._tasks: BackgroundTasks | None = None
        self._aggregation: AggregationController | None = None
        self._running = AsyncExitStack()
        self.registry = Registry(
            scheme=self.scheme,
            backend=backend,
            clock=clock,
            start_task=self._start,
            event_ttl_s=config.event_ttl_s,
            service_ranges=ServiceRanges.parse(
                config.service_cluster_ip_range, config.service_node_port_range, seed=config.service_allocation_seed
            ),
            token_signer=_token_signer(config),
            encryption=config.encryption,
        )
        self._account_keys = account_keys(config)
        self._oidc = oidc_tokens(config, clock)
        self.metrics = metrics or Metrics()
        self._authenticator = authenticators(
            config,
            self.registry,
            self._account_keys,
            oidc=self._oidc,
            note=self._note_use,
            metrics=self.metrics,
        )
        self.security = self.registry.security = self._make_security()
        self._audit_backends = _audit_backends(config.audit, clock, self.metrics) if config.audit is not None else None
        self.kubelets = Kubelets(registry=self.registry, access=config.kubelets or KubeletAccess())
        self.upstream = UpstreamClient(kubelets=self.kubelets, has_dashboard=config.has_dashboard)
        self.webhooks = self.registry.webhooks = WebhookClients(registry=self.registry, kubelets=self.kubelets)
        self._storage_readiness = StorageReadiness(registry=self.registry)
        self._start_checks = StartChecks(has_fairness=config.has_fairness)
        self.pipeline = self._make_pipeline()
        self.fairness = Fairness(
            seats=config.max_in_flight + config.max_mutating_in_flight,
            width=partial(count_seats, registry=self.registry),
        )
        self.watchdog = LoopWatchdog(metrics=self.metrics, interval_s=LAG_INTERVAL_S, describe=request_in_frame)
        self._lag = LoopLag(metrics=self.metrics, on_beat=self.watchdog.beat)
        self._http = HttpServer(
            pipeline=self.pipeline,
            start_task=self._start,
            limits=HttpLimits(reading=config.max_in_flight, writing=config.max_mutating_in_flight),
            metrics=RequestMetrics(metrics=self.metrics),
            fairness=self.fairness if config.has_fairness else None,
        )
        export_process(self.metrics)
        export_build_info(self.metrics)
        export_feature_gates(self.metrics, config.feature_gates)
        export_storage(self.metrics, self.registry)
        export_fairness(self.metrics, self.fairness)

    async def __aenter__(self) -> ApiServer:
        async with AsyncExitStack() as running:
            running.push_async_callback(self.upstream.close)  # the background tasks use both until they end
            running.push_async_callback(self.webhooks.close)
            self._tasks = await running.enter_async_context(BackgroundTasks())
            running.enter_context(self.watchdog.watching())
            self._start(self._lag.run())
            if self._audit_backends is not None:
                self._start(self._audit_backends.run())
            rbac_updater = RbacIndexUpdater(index=self.security.rules, registry=self.registry)
            self._start(rbac_updater.run())
            running.push_async_callback(self._authenticator.tokens.close)
            running.push_async_callback(self.security.authorizer.close)
            for file in make_reloading_files(self.config, self._oidc, self._use_modes, self.clock):
                self._start(file.run())
            running.push_async_callback(self._http.close)
            await self._listen()
            finish = self._start_checks.finish
            finish(StartStep.LISTENING)
            endpoints = self._endpoint_reconciler()
            system_objects = SystemObjects(
                pipeline=self.pipeline,
                cluster_ip_range=self.config.service_cluster_ip_range,
                port=self._port,
                endpoints=endpoints,
            )
            trust = ClusterAuthenticationTrust(pipeline=self.pipeline, data=trust_data(self.config))
            flow_control = FlowControlController(fairness=self.fairness, pipeline=self.pipeline)
            if not self.config.has_system_objects:
                await system_objects.ensure()
                await trust.ensure()
                await flow_control.ensure_defaults()
            finish(StartStep.SYSTEM_OBJECTS, StartStep.TRUST, StartStep.FLOW_CONTROL)
            self._start(system_objects.run(RealClock()))
            self._start(trust.run())
            for certificates in make_reloading_certificates(
                self.config,
                use_tls=self._http.use_tls,
                use_trust=lambda data: self._start(trust.replace(data)),
                use_kubelets=self.kubelets.renew_tls,
            ):
                self._start(certificates.run())
            self._start(flow_control.run())
            await rbac_updater.wait_filled()
            finish(StartStep.INFORMERS)
            if not self.config.has_system_objects:
                await reconcile(self.pipeline, self.security.rules)
            finish(StartStep.ROLES)
            self._start(AllocationRepair(registry=self.registry, clock=RealClock()).run())
            self._start(self._run_metrics())
            aggregation = self._start_aggregation()
            finish(StartStep.ALLOCATION_REPAIR, StartStep.AGGREGATION)
            definitions = DefinitionController(
                pipeline=self.pipeline, metrics=CustomResourceMetrics(metrics=self.metrics)
            )
            self._start(definitions.run())
            await definitions.wait_synced()
            finish(StartStep.DEFINITIONS)
            await self._storage_readiness.run()
            if not self.config.has_system_objects:
                self._start(self._identity_lease().run())
            finish(StartStep.IDENTITY)
            await aggregation.wait_registered()
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
        return self.config.advertise_address or find_default_route_address()

    @property
    def _port(self) -> int:
        return self.secure_port or self.insecure_port or 443

    def _system_client(self) -> Client:
        return Client(transport=self.loopback(), clock=RealClock(), component="sampan-apiserver")

    def _endpoint_reconciler(self) -> EndpointReconciler | None:
        if ipaddress.ip_address(self.address).is_loopback:
            return None
        leases = server_leases(self.backend, self.address)
        return EndpointReconciler(client=self._system_client(), leases=leases, address=self.address, port=self._port)

    def _identity_lease(self) -> IdentityLease:
        interval_s = _IDENTITY_INTERVAL_S if self.backend.is_shared else _SOLE_IDENTITY_INTERVAL_S
        return IdentityLease(client=self._system_client(), clock=RealClock(), interval_s=interval_s)

    def serve_metrics(self) -> None:
        """Serve the metrics API at once, because there are kubelets in this process."""
        self._has_kubelets.set()

    async def _run_metrics(self) -> None:
        from sampan.apiserver.metrics_api.api import MetricsApi
        from sampan.apiserver.metrics_api.resource_metrics import KubeletSummaries

        summaries = KubeletSummaries(upstream=self.upstream, clock=self.clock)
        await MetricsApi(pipeline=self.pipeline, summaries=summaries).run(self._has_kubelets)

    def _start_aggregation(self) -> AggregationController:
        client = self.config.proxy_client
        aggregation = AggregationController(
            pipeline=self.pipeline, upstream=self.upstream, client=client, metrics=self.metrics
        )
        self.pipeline.aggregation = self._aggregation = aggregation
        if client is not None:
            self._start(make_reloading_proxy_client(client, aggregation.renew_client).run())
        self._start(aggregation.run())
        return aggregation

    def user_api_source(self) -> InProcessApiSource:
        """Return the API for servers in this process that act with the rights of their users."""
        return InProcessApiSource(http=self._http, pipeline=self.pipeline, tls=lambda: self._http.tls)

    def serve_site(self, name: str, site: Site) -> None:
        """Serve a site under /NAME/ of the secure port."""
        self._http.sites[name] = site

    def loopback(self, user: UserInfo = SYSTEM) -> LoopbackTransport:
        """Return a transport for a client in this process."""
        return LoopbackTransport(pipeline=self.pipeline, user=user)

    def _make_security(self) -> AuthServices:
        rules, config, relations = RbacIndex(), self.config, NodeGraph(registry=self.registry)

        def make(modes: Sequence[Mode]) -> list[Authorizer]:
            return make_authorizers(modes, rules, relations, config.abac_policies, self.clock)

        self._authorizers_of = make
        return AuthServices(
            authorizer=UnionAuthorizer(*make(config.authorization_modes)),
            rules=rules,
            tokens=self._authenticator.tokens,
            audiences=audiences(config),
        )

    async def _note_use(self, secret: Secret, day: str) -> None:
        await record_use(self.pipeline, secret, day)

    def _use_modes(self, modes: Sequence[Mode]) -> None:
        old = self.security.authorizer.replace(self._authorizers_of(modes))
        self._start(_close_later(old))

    def _make_pipeline(self) -> Pipeline:
        authorizer, admission = self.security.authorizer, self._admission()
        endpoints = ApiEndpoints(
            registry=self.registry, admission=admission, authorizer=authorizer, upstream=self.upstream
        )
        return Pipeline(
            scheme=self.scheme,
            authenticator=self._authenticator,
            authorizer=authorizer,
            endpoints=endpoints,
            nonresource_handlers=nonresource_handlers(
                self.registry,
                address=self._host_port,
                openid=self._openid(),
                checks=self._start_checks.hooks(self._storage_readiness.check()),
                live_checks=[HealthCheck("loopback-serving-certificate", _need_no_certificate)],
                first_ready_checks=[self._start_checks.informer_sync()],
                last_ready_checks=[HealthCheck("shutdown", self._check_stopping, is_transient=True)],
                component_failures=lambda: self.component_failures(),
                metrics=self.metrics,
                recorder=self.recorder,
                debug=self.debug,
                remote=lambda: self._aggregation,
            ),
            recorder=self.recorder,
            auditor=self._auditor(endpoints),
        )

    def _auditor(self, endpoints: ApiEndpoints) -> PolicyAuditor | None:
        if self.config.audit is None or self._audit_backends is None:
            return None
        from sampan.apiserver.audit.auditor import PolicyAuditor

        return PolicyAuditor(
            policy=self.config.audit.policy,
            backends=self._audit_backends,
            clock=self.clock,
            versions=endpoints.versions,
        )

    def _host_port(self) -> str:
        return f"{self.address}:{self.secure_port or self.insecure_port}"

    def _openid(self) -> OpenIdHandler | None:
        if not self._account_keys:
            return None
        config = self.config
        return OpenIdHandler(
            issuer=config.service_account_issuer,
            keys=self._account_keys,
            address=self._host_port,
            keys_url=config.service_account_jwks_uri,
        )

    def _admission(self) -> AdmissionChain:
        config = self.config
        disabled, enabled = config.disabled_admission_plugins, config.enabled_admission_plugins
        plugins = default_plugins(
            disabled,
            enabled,
            config.admission_configurations,
            metrics=self.metrics,
            tolerations=config.tolerations,
        )
        return AdmissionChain(plugins)

    async def _check_stopping(self) -> None:
        if self._http.is_stopping:
            raise RuntimeError("the server is stopping")

    async def _listen(self) -> None:
        config = self.config
        if config.tls is not None and (config.secure_port or config.any_secure_port):
            tls, port = tls_context(config.tls, config.proxy_ca), 0 if config.any_secure_port else config.secure_port
            for address in (config.bind_address, *config.other_bind_addresses):
                self.secure_port = port = await self._open(Listener(address, port, tls))
        if config.insecure_port or config.any_insecure_port:
            port = 0 if config.any_insecure_port else config.insecure_port
            listener = Listener(config.insecure_bind_address, port, user=INSECURE_USER)
            self.insecure_port = await self._open(listener)
            log.warning("serving plain HTTP without authentication on %s:%d", listener.host, self.insecure_port)

    async def _open(self, listener: Listener) -> int:
        """Listen on an address in each network that has it, on the same port, and return the port."""
        port, failure = 0, OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        for network in self.config.networks:
            try:
                port = (await self._http.listen([replace(listener, port=port or listener.port, network=network)]))[0]
            except OSError as error:
                failure = error
                if error.errno != errno.EADDRNOTAVAIL:
                    raise ListenError(error, listener) from None
        if not port:
            raise ListenError(failure, listener) from None
        return port

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        if self._tasks is None:
            raise RuntimeError("the server is not running")
        return self._tasks.start(work)


async def _need_no_certificate() -> None:
    """Succeed always: clients in the process of the server use no connection, so there is no certificate to expire."""


async def _close_later(chain: UnionAuthorizer) -> None:
    """Close replaced authorizers after a delay in which the requests that still use them finish."""
    try:
        await asyncio.sleep(_RETIREMENT_S)
    finally:
        await chain.close()


def _token_signer(config: ServerConfig) -> TokenSigner | None:
    if config.service_account_key is None:
        return None
    key = config.service_account_key.read_bytes()
    return TokenSigner(
        key_pem=key,
        issuer=config.service_account_issuer,
        audiences=audiences(config),
        longest_s=config.service_account_max_token_s,
        extends=config.extends_account_tokens,
    )


def _audit_backends(config: AuditConfig, clock: Clock, metrics: Metrics) -> AuditBackends:
    from sampan.apiserver.audit.buffer import AuditBackend, AuditBackends

    backends: list[AuditBackend] = []
    if config.path:
        from sampan.apiserver.audit.log import AuditLog, AuditLogFile

        file = AuditLogFile(
            config.path,
            clock=clock,
            max_bytes=config.max_size_mb << 20,
            max_backups=config.max_backups,
            max_age_days=config.max_age_days,
        )
        backends.append(AuditLog(file=file, metrics=metrics))
    if config.webhook is not None:
        from sampan.apiserver.audit.webhook import AuditWebhook

        backends.append(AuditWebhook(config.webhook, metrics=metrics))
    return AuditBackends(backends=backends, metrics=metrics)


def find_default_route_address() -> str:
    """Return the address of this machine's default route, or the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
