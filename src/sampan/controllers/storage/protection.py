"""Protection of objects in use by a finalizer, which is removed once the object is being deleted and no longer used.

`protection_claims`, `protection_volumes` and `protection_classes` differ in what counts as use.
"""

from typing import Any

from sampan.machinery import errors
from sampan.machinery.client.resource import ResourceClient
from sampan.machinery.copies import copy_of


def is_candidate(obj: Any, finalizer: str) -> bool:
    """Whether the object is being deleted and has this finalizer."""
    return obj.metadata.deletionTimestamp is not None and finalizer in obj.metadata.finalizers


def lacks(obj: Any, finalizer: str) -> bool:
    """Whether the object is not being deleted and lacks the finalizer, as if created before admission added it."""
    return obj.metadata.deletionTimestamp is None and finalizer not in obj.metadata.finalizers


def concerns(obj: Any, finalizer: str) -> bool:
    return is_candidate(obj, finalizer) or lacks(obj, finalizer)


async def protect(objects: ResourceClient[Any], obj: Any, finalizer: str) -> None:
    await _write(objects, obj, [*obj.metadata.finalizers, finalizer])


async def release(objects: ResourceClient[Any], obj: Any, finalizer: str) -> None:
    await _write(objects, obj, [name for name in obj.metadata.finalizers if name != finalizer])


async def _write(objects: ResourceClient[Any], obj: Any, finalizers: list[str]) -> None:
    changed = copy_of(obj)
    changed.metadata.finalizers = finalizers
    try:
        await objects.update(changed)
    except errors.NotFound:
        return
