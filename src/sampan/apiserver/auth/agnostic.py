"""Adapter for authenticators of tokens without audiences: they are valid for the audiences of the server."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.apiserver.auth.chain import Identity, TokenAuthenticator


class AudienceAgnostic:
    def __init__(self, tokens: TokenAuthenticator, *, audiences: Sequence[str]) -> None:
        self._tokens, self._audiences = tokens, tuple(audiences)

    async def identify(self, token: str, audiences: Sequence[str] = ()) -> Identity | None:
        if not audiences:
            return await self._tokens.identify(token)
        common = tuple(word for word in audiences if word in self._audiences)
        identity = await self._tokens.identify(token) if common else None
        return Identity(identity.user, common) if identity is not None else None
