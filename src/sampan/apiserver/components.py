"""The parts of the API server: the request pipeline, the listeners, and the controllers of its own objects."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sampan.apiserver.admission.framework.chain import AdmissionChain
from sampan.apiserver.admission.plugins import default_plugins
from sampan.apiserver.aggregation.controller import AggregationController
from sampan.apiserver.aggregation.remote_groups import RemoteGroups
from sampan.apiserver.authn.cluster_authentication_trust import ClusterAuthenticationTrust, trust_data
from sampan.apiserver.authz.rbac.index_updater import RbacIndexUpdater
from sampan.apiserver.customresources.controller import DefinitionController
from sampan.apiserver.customresources.metrics import CustomResourceMetrics
from sampan.apiserver.endpoints import ApiEndpoints
from sampan.apiserver.flowcontrol import Fairness, FlowControlController
from sampan.apiserver.flowcontrol.fairness import count_seats, export_fairness
from sampan.apiserver.handlers import ResourceHandlers
from sampan.apiserver.http.connection_limits import HttpLimits
from sampan.apiserver.http.server import HttpServer
from sampan.apiserver.metrics import RequestMetrics, export_storage
from sampan.apiserver.nonresource import NonResourceHandler, nonresource_handlers
from sampan.apiserver.nonresource.health import StorageReadiness
from sampan.apiserver.nonresource.server_info import OpenIdHandler
from sampan.apiserver.nonresource.start_checks import StartChecks
from sampan.apiserver.pipeline import Pipeline
from sampan.apiserver.registry.allocation import AllocationRepair
from sampan.apiserver.registry.kinds import find_handlers
from sampan.apiserver.request.call import request_in_frame
from sampan.apiserver.server_address import ApiServerAddress
from sampan.apiserver.services import ServerServices
from sampan.host.clock import Clock, RealClock
from sampan.machinery.telemetry.build_info import export_build_info, export_versions
from sampan.machinery.telemetry.feature_gates import export_feature_gates
from sampan.machinery.telemetry.health import HealthCheck
from sampan.machinery.telemetry.loop_watchdog import LoopWatchdog
from sampan.machinery.telemetry.metrics import LAG_INTERVAL_S, LoopLag, Metrics, export_process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sampan.apiserver.audit import AuditBackends, PolicyAuditor
    from sampan.apiserver.config.server_config import AuditConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerComponents:
    """All parts of an API server."""

    services: ServerServices
    address: ApiServerAddress
    pipeline: Pipeline
    http: HttpServer
    fairness: Fairness
    watchdog: LoopWatchdog
    lag: LoopLag
    start_checks: StartChecks
    storage_readiness: StorageReadiness
    audit_backends: AuditBackends | None
    rbac_updater: RbacIndexUpdater
    trust: ClusterAuthenticationTrust
    flow_control: FlowControlController
    allocation_repair: AllocationRepair
    aggregation: AggregationController
    definitions: DefinitionController


def build_components(services: ServerServices) -> ServerComponents:
    config, registry, metrics = services.config, services.registry, services.metrics
    address, start_checks = ApiServerAddress(config), StartChecks(has_fairness=config.has_fairness)
    storage_readiness = StorageReadiness(registry=registry)
    audit_backends = _build_audit_backends(config.audit, services.clock, metrics) if config.audit is not None else None
    remotes = RemoteGroups()

    async def check_stopping() -> None:
        if http.is_stopping:
            raise RuntimeError("the server is stopping")

    endpoints = _build_endpoints(services)
    pipeline = Pipeline(
        scheme=services.scheme,
        authenticator=services.authenticator,
        authorizer=services.security.authorizer,
        endpoints=endpoints,
        handlers=ResourceHandlers(find_builtin=find_handlers),
        nonresource_handlers=_build_nonresource_handlers(
            services, address, start_checks, storage_readiness, remotes, check_stopping
        ),
        aggregation=remotes,
        recorder=services.recorder,
        auditor=_build_auditor(services, audit_backends, endpoints),
    )
    fairness = Fairness(
        seats=config.max_in_flight + config.max_mutating_in_flight, width=partial(count_seats, registry=registry)
    )
    watchdog = LoopWatchdog(metrics=metrics, interval_s=LAG_INTERVAL_S, describe=request_in_frame)
    http = HttpServer(
        pipeline=pipeline,
        start_task=services.tasks.start,
        limits=HttpLimits(reading=config.max_in_flight, writing=config.max_mutating_in_flight),
        metrics=RequestMetrics(metrics=metrics),
        fairness=fairness if config.has_fairness else None,
        compresses_watch_lists=config.feature_gates.is_enabled("WatchListCompression"),
    )
    components = ServerComponents(
        services=services,
        address=address,
        pipeline=pipeline,
        http=http,
        fairness=fairness,
        watchdog=watchdog,
        lag=LoopLag(metrics=metrics, on_beat=watchdog.beat),
        start_checks=start_checks,
        storage_readiness=storage_readiness,
        audit_backends=audit_backends,
        rbac_updater=RbacIndexUpdater(index=services.security.rules, registry=registry),
        trust=ClusterAuthenticationTrust(pipeline=pipeline, data=trust_data(config)),
        flow_control=FlowControlController(fairness=fairness, pipeline=pipeline),
        allocation_repair=AllocationRepair(services=services.strategy_services, clock=RealClock()),
        aggregation=AggregationController(
            pipeline=pipeline,
            upstream=services.upstream,
            remotes=remotes,
            client=config.proxy_client,
            metrics=metrics,
        ),
        definitions=DefinitionController(
            pipeline=pipeline, webhooks=services.webhooks, metrics=CustomResourceMetrics(metrics=metrics)
        ),
    )
    _export_metrics(components)
    return components


def _build_endpoints(services: ServerServices) -> ApiEndpoints:
    config = services.config
    plugins = default_plugins(
        config.disabled_admission_plugins,
        config.enabled_admission_plugins,
        config.admission_configurations,
        metrics=services.metrics,
        tolerations=config.tolerations,
        webhooks=services.webhooks,
        feature_gates=config.feature_gates,
    )
    return ApiEndpoints(
        registry=services.registry,
        admission=AdmissionChain(plugins),
        services=services.strategy_services,
        authorizer=services.security.authorizer,
        upstream=services.upstream,
        token_signer=services.token_signer,
        component_checks=services.process.checks,
    )


def _build_nonresource_handlers(
    services: ServerServices,
    address: ApiServerAddress,
    start_checks: StartChecks,
    storage_readiness: StorageReadiness,
    remotes: RemoteGroups,
    check_stopping: Callable[[], Awaitable[None]],
) -> Mapping[str, NonResourceHandler]:
    return nonresource_handlers(
        services.registry,
        address=address.host_port,
        openid=_build_openid(services, address),
        checks=start_checks.hooks(storage_readiness.check()),
        live_checks=[HealthCheck("loopback-serving-certificate", _need_no_certificate)],
        first_ready_checks=[start_checks.informer_sync()],
        last_ready_checks=[HealthCheck("shutdown", check_stopping, is_transient=True)],
        component_failures=services.process.failures,
        metrics=services.metrics,
        recorder=services.recorder,
        debug=services.process.debug,
        remotes=remotes,
    )


def _build_openid(services: ServerServices, address: ApiServerAddress) -> OpenIdHandler | None:
    if not services.account_keys:
        return None
    return OpenIdHandler(
        issuer=services.config.service_account_issuer,
        keys=services.account_keys,
        address=address.host_port,
        keys_url=services.config.service_account_jwks_uri,
    )


def _build_auditor(
    services: ServerServices, backends: AuditBackends | None, endpoints: ApiEndpoints
) -> PolicyAuditor | None:
    audit = services.config.audit
    if audit is None or backends is None:
        return None
    from sampan.apiserver.audit.auditor import PolicyAuditor

    return PolicyAuditor(policy=audit.policy, backends=backends, clock=services.clock, versions=endpoints.versions)


def _build_audit_backends(config: AuditConfig, clock: Clock, metrics: Metrics) -> AuditBackends:
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


def _export_metrics(components: ServerComponents) -> None:
    metrics = components.services.metrics
    export_process(metrics)
    export_build_info(metrics)
    export_versions(metrics, components.services.config.feature_gates)
    export_feature_gates(metrics, components.services.config.feature_gates)
    export_storage(metrics, components.services.registry)
    export_fairness(metrics, components.fairness)


async def _need_no_certificate() -> None:
    """Succeed always: clients in the process of the server use no connection, so there is no certificate to expire."""
