"""token-cleaner-controller, which deletes expired bootstrap tokens."""

from __future__ import annotations

from sampan.api.types.core_v1 import Secret
from sampan.controllers.descriptor import Parts
from sampan.controllers.security.joining import OURS, left_s
from sampan.machinery import errors
from sampan.machinery.client import Client, Delete, resource_of
from sampan.machinery.clock import Clock
from sampan.machinery.controller import Watch
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import Key, key_of


class TokenCleaner:
    name = "token-cleaner-controller"
    watches = (Watch(resource_of(Secret), lambda secret: (key_of(secret),), OURS),)

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock) -> None:
        self._secrets, self._known, self._clock = client.of(Secret), informers.of(Secret, OURS).lister, clock

    async def reconcile(self, key: Key) -> float | None:
        secret = self._known.by_key(key)
        if secret is None:
            return None
        remaining_s = left_s(secret, self._clock.now())
        if remaining_s > 0:
            return None if remaining_s == float("inf") else remaining_s
        try:
            await self._secrets.delete(key.name, key.namespace, options=Delete(uid=secret.metadata.uid))
        except (errors.NotFound, errors.Conflict):
            return None
        return None


def make(parts: Parts) -> TokenCleaner:
    client = parts.client_for(TokenCleaner.name)
    return TokenCleaner(client=client, informers=parts.informers, clock=parts.clock)
