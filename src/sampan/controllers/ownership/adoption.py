"""Which objects an owner keeps, adopts and releases (`controller_ref_manager.go`), and the indexes to find them."""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from sampan.api.codec import json
from sampan.api.selectors.label_grammar import SelectorError
from sampan.api.selectors.label_selector import LabelSelector, selector_of
from sampan.api.selectors.labels import NOTHING, Selector
from sampan.api.semantics.owners import controller_of, new_controller_ref
from sampan.machinery import errors
from sampan.machinery.client import ResourceClient
from sampan.machinery.informer import Lister
from sampan.machinery.object_key import NamespacedName, key_of

T = TypeVar("T")


def by_controller_or_orphan(obj: Any) -> Iterable[Hashable]:
    """Return the UID of the object's controller, or a key for the orphans of its namespace."""
    reference = controller_of(obj)
    return (reference.uid if reference is not None else _orphans_of(obj.metadata.namespace),)


def _orphans_of(namespace: str) -> Hashable:
    return ("orphans", namespace)


def candidates(lister: Lister[T], owner: Any) -> Sequence[T]:
    """Return the objects that the owner controls, and the orphans in its namespace."""
    meta = owner.metadata
    owned = lister.find(by_controller_or_orphan, meta.uid)
    orphans = lister.find(by_controller_or_orphan, _orphans_of(meta.namespace))
    return [*owned, *orphans] if orphans else owned


def selector_or_nothing(source: LabelSelector | None) -> Selector:
    """Return the selector, or one that matches nothing if it is invalid.

    An invalid selector must not break the indexes of the cache, and its owner must not adopt anything.
    """
    try:
        return selector_of(source)
    except SelectorError:
        return NOTHING


class OwnerIndex(Generic[T]):
    """Finds the owners that an object concerns: its controller, or all owners whose selector matches it.

    Owners are indexed by one label that their selector requires, so that an orphan needs no scan over all owners.
    """

    def __init__(self, *, owners: Lister[T], kind: str, selector: Callable[[T], Selector]) -> None:
        self._owners, self._kind, self._selector = owners, kind, selector
        owners.add_index(self._by_required_label)

    def keys(self, obj: Any) -> Iterable[NamespacedName]:
        """Return the keys of the owners to reconcile when the object is added, changed or deleted; for `Watch.keys`."""
        reference = controller_of(obj)
        if reference is not None:
            return (NamespacedName(obj.metadata.namespace, reference.name),) if reference.kind == self._kind else ()
        return [key_of(owner) for owner in self.list_selecting_owners(obj)]

    def list_selecting_owners(self, obj: Any) -> Sequence[T]:
        """Return the owners in the object's namespace whose selectors match it."""
        meta = obj.metadata
        if not meta.labels:
            return []
        owners: list[T] = []
        for demand in (None, *meta.labels.items()):
            demanding = self._owners.find(self._by_required_label, (meta.namespace, demand))
            owners += [owner for owner in demanding if self._selector(owner).matches(meta.labels)]
        return owners

    def _by_required_label(self, owner: Any) -> Iterable[Hashable]:
        selector = self._selector(owner)
        if selector.is_everything or selector.is_nothing:
            return ()
        exact = selector.exact()
        return ((owner.metadata.namespace, exact[0] if exact else None),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimControl:
    """The clients for claiming, and the finalizers that adoption adds."""

    owners: ResourceClient[Any]
    objects: ResourceClient[Any]
    finalizers: Sequence[str] = ()


def adoption_patch(owner: Any, obj: Any, finalizers: Sequence[str] = ()) -> dict[str, Any]:
    """Return the strategic merge patch that adopts the object. The API server rejects it if the object has another
    controller or another UID by then."""
    meta: dict[str, Any] = {"uid": obj.metadata.uid, "ownerReferences": [json.to_value(new_controller_ref(owner))]}
    if finalizers:
        meta["finalizers"] = list(finalizers)
    return {"metadata": meta}


def release_patch(owner: Any, obj: Any, finalizers: Sequence[str] = ()) -> dict[str, Any]:
    """Return the strategic merge patch that removes the owner reference."""
    reference = {"$patch": "delete", "uid": owner.metadata.uid}
    meta: dict[str, Any] = {"uid": obj.metadata.uid, "ownerReferences": [reference]}
    if finalizers:
        meta["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return {"metadata": meta}


class ClaimAction(Enum):
    KEEP = "the object is owned by the controller and matches its selector"
    RELEASE = "the object is owned by the controller and does not match its selector"
    ADOPT = "the object has no controller and matches the selector"
    LEAVE = "the object has another controller or does not match the selector"


def claim_action(owner: Any, obj: Any, is_match: bool) -> ClaimAction:
    """Decide whether to adopt, keep or release an object. An owner that is being deleted neither adopts nor
    releases."""
    reference, is_leaving = controller_of(obj), owner.metadata.deletionTimestamp is not None
    if reference is not None:
        if reference.uid != owner.metadata.uid:
            return ClaimAction.LEAVE
        if is_match:
            return ClaimAction.KEEP
        return ClaimAction.LEAVE if is_leaving else ClaimAction.RELEASE
    if not is_match or is_leaving or obj.metadata.deletionTimestamp is not None:
        return ClaimAction.LEAVE
    return ClaimAction.ADOPT


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
    claiming = _ClaimRound(owner, control)
    owned: list[T] = []
    for obj in objects:
        meta: Any = obj.metadata  # type: ignore[attr-defined]
        is_match = selector.matches(meta.labels) and (also is None or also(obj))
        decision = claim_action(owner, obj, is_match)
        if decision is ClaimAction.KEEP or (decision is ClaimAction.ADOPT and await claiming.try_adopt(obj)):
            owned.append(obj)
        elif decision is ClaimAction.RELEASE:
            await claiming.release(obj)
    if claiming.failure is not None:
        raise claiming.failure
    return owned


class _ClaimRound:
    """One round of claiming, which reads the owner from the server at most once."""

    def __init__(self, owner: Any, control: ClaimControl) -> None:
        self._owner, self._control = owner, control
        self._refusal: errors.ApiError | None = None
        self._has_checked = False
        self.failure: errors.ApiError | None = None

    async def try_adopt(self, obj: Any) -> bool:
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
        patch = release_patch(self._owner, obj, self._control.finalizers)
        try:
            await self._control.objects.patch(obj.metadata.name, patch, obj.metadata.namespace)
        except errors.Invalid:
            return  # The object has no owner references any more, or another object has the name.

    async def _adopt(self, obj: Any) -> None:
        await self._check_owner()
        if self._refusal is not None:
            raise errors.Conflict(f"can't adopt {obj.kind} {_describe(obj)}: {self._refusal}")
        patch = adoption_patch(self._owner, obj, self._control.finalizers)
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


def _describe(obj: Any) -> str:
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name} ({meta.uid})"
