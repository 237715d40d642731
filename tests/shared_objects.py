"""Objects in caches are shared and read-only: a check at the end of tests finds those that were modified."""

from sampan.apiserver.registry.codec import ResourceCodec
from sampan.apiserver.registry.registry import Registry
from sampan.storage.cacher.item import CacheItem


def modified_shared_objects(registry: Registry) -> list[str]:
    """Return the keys of cached objects that were modified although they are shared and read-only."""
    every = ((store.codec, item) for store in registry.stores() for item in store.cacher.peek_all())
    return [item.key for codec, item in every if _is_modified(codec, item)]


def _is_modified(codec: ResourceCodec, item: CacheItem) -> bool:
    return item.decoded is not None and codec.encode(item.decoded) != codec.encode(codec.decode(item.raw))
