"""Builds the configured authenticators, in the order of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sampan.apiserver.authn.authenticator import (
    AudienceAgnostic,
    CertificateAuthenticator,
    RequestAuthenticator,
    TokenAuthenticator,
    UnionAuthenticator,
)
from sampan.apiserver.authn.bootstrap_tokens import BootstrapTokens
from sampan.apiserver.authn.jwt_keys import VerificationKey, read_keys
from sampan.apiserver.authn.legacy_tokens import LegacyTokens, RecordTokenUse
from sampan.apiserver.authn.service_account_tokens import (
    RegistryObjectGetter,
    ServiceAccountTokens,
    ServiceAccountTokensConfig,
)
from sampan.apiserver.authn.static_tokens import FileTokens
from sampan.apiserver.classic.basic_auth import BasicAuthenticator

if TYPE_CHECKING:
    from sampan.apiserver.authn.oidc import OidcTokens
    from sampan.apiserver.config.server_config import ServerConfig
    from sampan.apiserver.registry.registry import Registry
    from sampan.host.clock import Clock
    from sampan.machinery.telemetry.metrics import Metrics


def account_keys(config: ServerConfig) -> tuple[VerificationKey, ...]:
    """Return the keys that verify service account tokens, the signing key first."""
    signing = [config.service_account_key] if config.service_account_key is not None else []
    return read_keys([path.read_bytes() for path in (*signing, *config.service_account_public_keys)])


def audiences(config: ServerConfig) -> Sequence[str]:
    return config.api_audiences or (config.service_account_issuer, *config.other_service_account_issuers)


def oidc_tokens(config: ServerConfig, clock: Clock) -> OidcTokens | None:
    if not config.jwt_issuers and config.authentication_config is None:
        return None
    from sampan.apiserver.authn.oidc import OidcTokens

    return OidcTokens(issuers=config.jwt_issuers, clock=clock)


def authenticators(
    config: ServerConfig,
    registry: Registry,
    keys: Sequence[VerificationKey],
    *,
    oidc: OidcTokens | None,
    record_token_use: RecordTokenUse,
    metrics: Metrics,
) -> UnionAuthenticator:
    """Return the chain of authenticators. `record_token_use` records the last use of a token on its secret."""
    return UnionAuthenticator(
        list(_make_request_authenticators(config, metrics)),
        tokens=list(_tokens(config, registry, keys, oidc, record_token_use)),
        allows_anonymous=config.allows_anonymous,
        anonymous_paths=config.anonymous_paths,
    )


def _make_request_authenticators(config: ServerConfig, metrics: Metrics) -> Iterator[RequestAuthenticator]:
    if config.front_proxy is not None:
        from sampan.apiserver.authn.front_proxy import FrontProxyAuthenticator

        yield FrontProxyAuthenticator(config.front_proxy)
    yield CertificateAuthenticator(metrics=metrics)
    if config.basic_users:
        yield BasicAuthenticator(config.basic_users)


def _tokens(
    config: ServerConfig,
    registry: Registry,
    keys: Sequence[VerificationKey],
    oidc: OidcTokens | None,
    record_token_use: RecordTokenUse,
) -> Iterator[TokenAuthenticator]:
    """Return the token authenticators, local ones before those that call other services."""
    own, clock = audiences(config), registry.clock
    if config.tokens:
        yield AudienceAgnostic(FileTokens(config.tokens), audiences=own)
    if keys:
        yield _account_tokens(config, registry, keys)
        yield LegacyTokens(
            keys=keys,
            audiences=own,
            objects=RegistryObjectGetter(registry=registry),
            clock=clock,
            record_use=record_token_use,
        )
    if config.has_bootstrap_tokens:
        bootstrap = BootstrapTokens(objects=RegistryObjectGetter(registry=registry), clock=clock)
        yield AudienceAgnostic(bootstrap, audiences=own)
    if oidc is not None:
        yield AudienceAgnostic(oidc, audiences=own)
    if config.token_webhook is not None:
        from sampan.apiserver.authn.token_webhook import TokenWebhook

        yield TokenWebhook(settings=config.token_webhook, audiences=own, clock=clock)


def _account_tokens(config: ServerConfig, registry: Registry, keys: Sequence[VerificationKey]) -> ServiceAccountTokens:
    object_config = ServiceAccountTokensConfig(
        issuer=config.service_account_issuer,
        audiences=audiences(config),
        keys=keys,
        other_issuers=config.other_service_account_issuers,
    )
    return ServiceAccountTokens(
        config=object_config, objects=RegistryObjectGetter(registry=registry), clock=registry.clock
    )
