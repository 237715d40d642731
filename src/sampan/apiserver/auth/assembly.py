"""The authenticators that a server's configuration asks for, in the real server's order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sampan.apiserver.auth.account_keys import AccountKey, read_keys
from sampan.apiserver.auth.account_tokens import AccountTokens, AccountTokensConfig, StoredObjects
from sampan.apiserver.auth.basic import BasicAuthenticator
from sampan.apiserver.auth.bootstrap_tokens import BootstrapTokens
from sampan.apiserver.auth.certificates import CertificateAuthenticator
from sampan.apiserver.auth.chain import AuthenticatorChain, OneAuthenticator, TokenAuthenticator
from sampan.apiserver.auth.tokens import FileTokens

if TYPE_CHECKING:
    from sampan.apiserver.config import ServerConfig
    from sampan.apiserver.registry.registry import Registry


def account_keys(config: ServerConfig) -> tuple[AccountKey, ...]:
    """The signing key first."""
    signing = [config.service_account_key] if config.service_account_key is not None else []
    return read_keys([path.read_bytes() for path in (*signing, *config.service_account_public_keys)])


def audiences(config: ServerConfig) -> Sequence[str]:
    return config.api_audiences or (config.service_account_issuer,)


def authenticators(config: ServerConfig, registry: Registry, keys: Sequence[AccountKey]) -> AuthenticatorChain:
    named: list[OneAuthenticator] = [CertificateAuthenticator()]
    if config.basic_users:
        named.append(BasicAuthenticator(config.basic_users))
    tokens: list[TokenAuthenticator] = []
    if config.tokens:
        tokens.append(FileTokens(config.tokens))
    if keys:
        tokens.append(_account_tokens(config, registry, keys))
    if config.has_bootstrap_tokens:
        tokens.append(BootstrapTokens(objects=StoredObjects(registry=registry), clock=registry.clock))
    return AuthenticatorChain(named, tokens=tokens, allows_anonymous=config.allows_anonymous)


def _account_tokens(config: ServerConfig, registry: Registry, keys: Sequence[AccountKey]) -> AccountTokens:
    about = AccountTokensConfig(issuer=config.service_account_issuer, audiences=audiences(config), keys=keys)
    return AccountTokens(config=about, objects=StoredObjects(registry=registry), clock=registry.clock)


__all__ = ["account_keys", "audiences", "authenticators"]
