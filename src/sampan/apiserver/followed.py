"""The configuration files that a server follows while it runs: who issues tokens, who decides."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampan.apiserver.following import FollowedFile

if TYPE_CHECKING:
    from sampan.apiserver.auth.configuration import Authentication
    from sampan.apiserver.auth.oidc import OidcTokens
    from sampan.apiserver.authz.modes import Mode
    from sampan.apiserver.config import ServerConfig
    from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)


def followed_files(
    config: ServerConfig, oidc: OidcTokens | None, use_modes: Callable[[Sequence[Mode]], None], clock: Clock
) -> Iterator[FollowedFile[Any]]:
    if config.authentication_config is not None and oidc is not None:
        yield _authentication(config, config.authentication_config, oidc, clock)
    if config.authorization_config is not None:
        from sampan.apiserver.authz.configuration import read_authorization

        yield FollowedFile(config.authorization_config, read=read_authorization, use=use_modes, clock=clock)


def _authentication(config: ServerConfig, path: Path, oidc: OidcTokens, clock: Clock) -> FollowedFile[Authentication]:
    from sampan.apiserver.auth.configuration import read_authentication

    def read(path: Path) -> Authentication:
        return read_authentication(path, [config.service_account_issuer, *config.other_service_account_issuers])

    def use(found: Authentication) -> None:
        """Who may be anonymous is settled when the server starts, as with the real one."""
        anonymous = (found.allows_anonymous, tuple(found.anonymous_paths))
        if found.is_anonymous_set and anonymous != (config.allows_anonymous, tuple(config.anonymous_paths)):
            log.warning("%s: a change of anonymous takes effect when the server is started again", path)
        oidc.replace(found.issuers)

    return FollowedFile(path, read=read, use=use, clock=clock)


__all__ = ["followed_files"]
