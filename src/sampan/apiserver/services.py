"""The objects that nearly every part of the API server needs, created before the parts (`components`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sampan.api.resources.runtime_config import select_versions
from sampan.api.scheme import Scheme
from sampan.apiserver.authn.assembly import account_keys, audiences, authenticators, oidc_tokens
from sampan.apiserver.authn.authenticator import UnionAuthenticator
from sampan.apiserver.authn.jwt_keys import VerificationKey
from sampan.apiserver.authn.legacy_tokens import TokenUses
from sampan.apiserver.authz import Authorizer, UnionAuthorizer
from sampan.apiserver.authz.modes import Mode, make_authorizers
from sampan.apiserver.authz.node import NodeGraph
from sampan.apiserver.authz.rbac import RbacIndex
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.endpoints import ComponentChecks
from sampan.apiserver.nonresource.debug import DebugHandlers
from sampan.apiserver.proxy.kubelets import FindLocalKubelet, KubeletAccess, Kubelets, find_no_kubelet
from sampan.apiserver.proxy.upstream import UpstreamClient
from sampan.apiserver.registry.allocation import ServiceRanges
from sampan.apiserver.registry.behaviors import make_behavior
from sampan.apiserver.registry.registry import Registry
from sampan.apiserver.registry.strategy_services import AuthServices, StrategyServices, make_strategy_services
from sampan.apiserver.webhooks.client import WebhookClients
from sampan.host.background_tasks import BackgroundTasks
from sampan.host.clock import Clock
from sampan.machinery.pki.token_signer import TokenSigner
from sampan.machinery.telemetry.flight_recorder import FlightRecorder
from sampan.machinery.telemetry.metrics import Metrics
from sampan.storage.backend import Backend

if TYPE_CHECKING:
    from sampan.apiserver.authn.oidc import OidcTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessComponents:
    """What the API server uses of the other components of its process. By default there are none."""

    find_kubelet: FindLocalKubelet = find_no_kubelet
    debug: DebugHandlers = field(default_factory=DebugHandlers)
    checks: ComponentChecks = field(default_factory=ComponentChecks)
    failures: Callable[[], Mapping[str, str]] = dict
    """Returns why each of the other components is failed, or an empty string if it is not. They are reported beside the
    health checks, and the server is ready without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerServices:
    """The objects that nearly every part of an API server needs. They are complete before the first part is created."""

    config: ServerConfig
    backend: Backend
    clock: Clock
    metrics: Metrics
    recorder: FlightRecorder
    process: ProcessComponents
    tasks: BackgroundTasks
    scheme: Scheme
    registry: Registry
    token_signer: TokenSigner | None
    """The signer of service account tokens; None if tokens cannot be requested."""
    account_keys: Sequence[VerificationKey]
    token_uses: TokenUses
    oidc: OidcTokens | None
    authenticator: UnionAuthenticator
    make_authorizers: Callable[[Sequence[Mode]], list[Authorizer]]
    security: AuthServices
    strategy_services: StrategyServices
    kubelets: Kubelets
    upstream: UpstreamClient
    webhooks: WebhookClients


def build_services(
    *, config: ServerConfig, backend: Backend, clock: Clock, metrics: Metrics, process: ProcessComponents
) -> ServerServices:
    versions = select_versions(config.runtime_config, config.feature_gates, config.forward_compatibility)
    scheme, tasks = Scheme(versions), BackgroundTasks()
    registry = Registry(
        scheme=scheme,
        backend=backend,
        clock=clock,
        start_task=tasks.start,
        make_behavior=make_behavior,
        event_ttl_s=config.event_ttl_s,
        encryption=config.encryption,
        feature_gates=config.feature_gates,
    )
    keys, token_uses, oidc = account_keys(config), TokenUses(), oidc_tokens(config, clock)
    authenticator = authenticators(
        config, registry, keys, oidc=oidc, record_token_use=token_uses.record, metrics=metrics
    )
    rules, relations = RbacIndex(), NodeGraph(registry=registry)

    def make(modes: Sequence[Mode]) -> list[Authorizer]:
        return make_authorizers(
            modes, rules, relations, config.abac_policies, clock, feature_gates=config.feature_gates
        )

    security = AuthServices(
        authorizer=UnionAuthorizer(*make(config.authorization_modes)),
        rules=rules,
        tokens=authenticator.tokens,
        audiences=audiences(config),
    )
    ranges = ServiceRanges.parse(
        config.service_cluster_ip_range, config.service_node_port_range, seed=config.service_allocation_seed
    )
    kubelets = Kubelets(registry=registry, access=config.kubelets or KubeletAccess(), find_local=process.find_kubelet)
    return ServerServices(
        config=config,
        backend=backend,
        clock=clock,
        metrics=metrics,
        recorder=FlightRecorder(clock=clock),
        process=process,
        tasks=tasks,
        scheme=scheme,
        registry=registry,
        token_signer=_make_token_signer(config),
        account_keys=keys,
        token_uses=token_uses,
        oidc=oidc,
        authenticator=authenticator,
        make_authorizers=make,
        security=security,
        strategy_services=make_strategy_services(
            registry, ranges=ranges, security=security, feature_gates=config.feature_gates
        ),
        kubelets=kubelets,
        upstream=UpstreamClient(kubelets=kubelets, has_dashboard=config.has_dashboard),
        webhooks=WebhookClients(registry=registry, kubelets=kubelets),
    )


def _make_token_signer(config: ServerConfig) -> TokenSigner | None:
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
