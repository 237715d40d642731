"""Look-ups by admission plugins: objects, from the watch cache or by a consistent read if they are missing there, and
permissions beyond the request itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sampan.apiserver.admission.framework.contract import AdmissionAttributes
from sampan.apiserver.authz.authorizer import ALLOW, AuthzDecision, AuthzResult
from sampan.apiserver.authz.authorizer import Attributes as AuthzAttributes

if TYPE_CHECKING:
    from sampan.apiserver.registry.store import Store


async def find(store: Store, namespace: str, name: str) -> Any | None:
    """Return the object, shared and read-only. It may be slightly stale, but None means that it certainly does not
    exist."""
    obj = store.peek(namespace, name)
    return obj if obj is not None else await find_now(store, namespace, name)


async def find_now(store: Store, namespace: str, name: str) -> Any | None:
    """Return the current object, by a consistent read."""
    item = await store.cacher.get(namespace, name)
    return item.object(store.codec.decode) if item is not None else None


async def list_all(store: Store) -> list[Any]:
    """Return all cached objects, shared and read-only."""
    await store.cacher.wait_ready()
    return [item.object(store.codec.decode) for item in store.cacher.peek_all()]


async def list_in_namespace(store: Store, namespace: str) -> list[Any]:
    """Return the cached objects of a namespace, ordered by name, shared and read-only."""
    if not store.cacher.is_ready:
        await store.cacher.wait_ready()
    return [item.object(store.codec.decode) for item in store.cacher.peek_in(namespace)]


def find_newest(objects: Iterable[Any]) -> Any | None:
    """Return the most recently created object; of those created in the same second the first by name."""
    by_name = sorted(objects, key=lambda obj: obj.metadata.name)
    return max(by_name, key=lambda obj: obj.metadata.creationTimestamp or "", default=None)


async def authorize(attributes: AdmissionAttributes, request: AuthzAttributes) -> AuthzResult:
    """Return the authorization decision about `request`; a server without an authorizer allows everything."""
    security = attributes.services.security
    return ALLOW if security is None else await security.authorizer.authorize(request)


async def is_allowed(attributes: AdmissionAttributes, request: AuthzAttributes) -> bool:
    return (await authorize(attributes, request)).decision is AuthzDecision.ALLOW


async def is_authorized_for_signer(attributes: AdmissionAttributes, verb: str, signer: str) -> bool:
    """Whether the user has permission for the signer, or for its whole domain."""
    security = attributes.services.security
    return security is None or await security.authorizer.is_allowed_for_signer(attributes.user, verb, signer)
