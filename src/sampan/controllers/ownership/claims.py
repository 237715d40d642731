"""Claiming of objects by an owner: matching ones are kept, others released, and matching orphans adopted.

An orphan is adopted only after a live read has confirmed that the owner has the same UID and is not being deleted: the
cache may be stale, and the garbage collector may just be orphaning the owner's dependents.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from sampan.api.codec import json
from sampan.api.labels import Selector
from sampan.api.semantics.owners import controller_of, new_controller_ref
from sampan.machinery import errors
from sampan.machinery.client import ResourceClient

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimControl:
    """The clients for claiming, and the finalizers that adoption adds."""

    owners: ResourceClient[Any]
    objects: ResourceClient[Any]
    finalizers: Sequence[str] = ()


def adoption(owner: Any, obj: Any, finalizers: Sequence[str] = ()) -> dict[str, Any]:
    """Return the strategic merge patch that adopts the object; rejected if it has another controller or UID by then."""
    meta: dict[str, Any] = {"uid": obj.metadata.uid, "ownerReferences": [json.to_value(new_controller_ref(owner))]}
    if finalizers:
        meta["finalizers"] = list(finalizers)
    return {"metadata": meta}


def release(owner: Any, obj: Any, finalizers: Sequence[str] = ()) -> dict[str, Any]:
    """Return the strategic merge patch that removes the owner reference."""
    reference = {"$patch": "delete", "uid": owner.metadata.uid}
    meta: dict[str, Any] = {"uid": obj.metadata.uid, "ownerReferences": [reference]}
    if finalizers:
        meta["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return {"metadata": meta}


class Verdict(Enum):
    KEEP = "it is the owner's, and should be"
    RELEASE = "it is the owner's, and should not be"
    ADOPT = "it is nobody's, and should be the owner's"
    LEAVE = "it is no business of the owner's"


def verdict(owner: Any, obj: Any, is_match: bool) -> Verdict:
    """Decide about an object. An owner that is being deleted neither adopts nor releases."""
    reference, is_leaving = controller_of(obj), owner.metadata.deletionTimestamp is not None
    if reference is not None:
        if reference.uid != owner.metadata.uid:
            return Verdict.LEAVE
        if is_match:
            return Verdict.KEEP
        return Verdict.LEAVE if is_leaving else Verdict.RELEASE
    if not is_match or is_leaving or obj.metadata.deletionTimestamp is not None:
        return Verdict.LEAVE
    return Verdict.ADOPT


async def claim(
    owner: Any,
    selector: Selector,
    objects: Iterable[T],
    control: ClaimControl,
    *,
    also: Callable[[T], bool] | None = None,
) -> list[T]:
    """Claim the objects and return those that the owner controls now.

    An object matches if the selector and `also` accept it. All objects are processed before the first error is raised.
    """
    claiming = _Claiming(owner, control)
    owned: list[T] = []
    for obj in objects:
        meta: Any = obj.metadata  # type: ignore[attr-defined]
        is_match = selector.matches(meta.labels) and (also is None or also(obj))
        decision = verdict(owner, obj, is_match)
        if decision is Verdict.KEEP or (decision is Verdict.ADOPT and await claiming.adopted(obj)):
            owned.append(obj)
        elif decision is Verdict.RELEASE:
            await claiming.release(obj)
    if claiming.failure is not None:
        raise claiming.failure
    return owned


class _Claiming:
    """One round of claiming, which reads the owner from the server at most once."""

    def __init__(self, owner: Any, control: ClaimControl) -> None:
        self._owner, self._control = owner, control
        self._refusal: errors.ApiError | None = None
        self._has_checked = False
        self.failure: errors.ApiError | None = None

    async def adopted(self, obj: Any) -> bool:
        return await self._try(self._adopt(obj))

    async def release(self, obj: Any) -> None:
        await self._try(self._release(obj))

    async def _try(self, attempt: Awaitable[None]) -> bool:
        try:
            await attempt
        except errors.NotFound:
            return False  # The object is deleted, so that there is nothing to claim.
        except errors.ApiError as error:
            self.failure = self.failure or error
            return False
        return True

    async def _release(self, obj: Any) -> None:
        patch = release(self._owner, obj, self._control.finalizers)
        try:
            await self._control.objects.patch(obj.metadata.name, patch, obj.metadata.namespace)
        except errors.Invalid:
            return  # It has no owner references any more, or another object has the name.

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
            message = f"original {self._owner.kind} {name} is gone: got uid {fresh.uid}, wanted {meta.uid}"
            self._refusal = errors.Conflict(message)
        elif fresh.deletionTimestamp is not None:
            self._refusal = errors.Conflict(f"{name} has just been deleted at {fresh.deletionTimestamp}")


def _told(obj: Any) -> str:
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name} ({meta.uid})"
