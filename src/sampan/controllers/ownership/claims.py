"""Whose the objects are: keep what matches, let go what no longer does, take in orphans that do.

An orphan is adopted only after the server itself has shown that the owner is still the one we know and is not being
deleted: a cache may be behind, and the garbage collector may just be orphaning what the owner leaves.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sampan.api.codec import json
from sampan.api.labels import Selector
from sampan.controllers.ownership.references import controller_of, controller_ref
from sampan.machinery import errors
from sampan.machinery.client import ResourceClient

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimControl:
    """The clients that claiming needs, and what adopting adds to an object besides the reference."""

    owners: ResourceClient[Any]
    objects: ResourceClient[Any]
    finalizers: Sequence[str] = ()


def adoption(owner: Any, obj: Any, finalizers: Sequence[str] = ()) -> dict[str, Any]:
    """The strategic patch that makes the object the owner's; refused if it has become another's meanwhile."""
    meta: dict[str, Any] = {"uid": obj.metadata.uid, "ownerReferences": [json.to_value(controller_ref(owner))]}
    if finalizers:
        meta["finalizers"] = list(finalizers)
    return {"metadata": meta}


def release(owner: Any, obj: Any, finalizers: Sequence[str] = ()) -> dict[str, Any]:
    """The strategic patch that makes the object nobody's."""
    reference = {"$patch": "delete", "uid": owner.metadata.uid}
    meta: dict[str, Any] = {"uid": obj.metadata.uid, "ownerReferences": [reference]}
    if finalizers:
        meta["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return {"metadata": meta}


async def claim(
    owner: Any,
    selector: Selector,
    objects: Iterable[T],
    control: ClaimControl,
    *,
    also: Callable[[T], bool] | None = None,
) -> list[T]:
    """Those of the objects that are the owner's now. `also` must hold, besides the selector, for an object to be so.

    Every object is tried; then the first failure is raised.
    """
    claiming = _Claiming(owner, control)
    owned: list[T] = []
    for obj in objects:
        meta: Any = obj.metadata  # type: ignore[attr-defined]
        is_match = selector.matches(meta.labels) and (also is None or also(obj))
        if await claiming.is_ours(obj, is_match):
            owned.append(obj)
    if claiming.failure is not None:
        raise claiming.failure
    return owned


class _Claiming:
    """One round of claiming; the owner is read from the server at most once."""

    def __init__(self, owner: Any, control: ClaimControl) -> None:
        self._owner, self._control = owner, control
        self._is_leaving = owner.metadata.deletionTimestamp is not None
        self._refusal: errors.ApiError | None = None
        self._has_checked = False
        self.failure: errors.ApiError | None = None

    async def is_ours(self, obj: Any, is_match: bool) -> bool:
        reference = controller_of(obj)
        if reference is not None:
            if reference.uid != self._owner.metadata.uid:
                return False
            if is_match or self._is_leaving:
                return is_match
            await self._try(self._release(obj))
            return False
        if not is_match or self._is_leaving or obj.metadata.deletionTimestamp is not None:
            return False
        return await self._try(self._adopt(obj))

    async def _try(self, attempt: Any) -> bool:
        try:
            await attempt
        except errors.NotFound:
            return False  # it is gone: nothing to claim
        except errors.ApiError as error:
            self.failure = self.failure or error
            return False
        return True

    async def _release(self, obj: Any) -> None:
        patch = release(self._owner, obj, self._control.finalizers)
        try:
            await self._control.objects.patch(obj.metadata.name, patch, obj.metadata.namespace)
        except errors.Invalid:
            return  # it has no owners any more, or is another object of that name

    async def _adopt(self, obj: Any) -> None:
        await self._check_owner()
        if self._refusal is not None:
            raise errors.Conflict(f"can't adopt {obj.kind} {_told(obj)}: {self._refusal}")
        patch = adoption(self._owner, obj, self._control.finalizers)
        await self._control.objects.patch(obj.metadata.name, patch, obj.metadata.namespace)

    async def _check_owner(self) -> None:
        if self._has_checked:
            return
        self._has_checked = True
        meta = self._owner.metadata
        try:
            fresh = (await self._control.owners.get(meta.name, meta.namespace)).metadata
        except errors.ApiError as error:
            self._refusal = error
            return
        name = f"{meta.namespace}/{meta.name}"
        if fresh.uid != meta.uid:
            told = f"original {self._owner.kind} {name} is gone: got uid {fresh.uid}, wanted {meta.uid}"
            self._refusal = errors.Conflict(told)
        elif fresh.deletionTimestamp is not None:
            self._refusal = errors.Conflict(f"{name} has just been deleted at {fresh.deletionTimestamp}")


def _told(obj: Any) -> str:
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name} ({meta.uid})"


__all__ = ["ClaimControl", "adoption", "claim", "release"]
