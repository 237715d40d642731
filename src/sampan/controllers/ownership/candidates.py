"""Indexes that find the objects of an owner, and the owners of an object."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from sampan.api.label_grammar import SelectorError
from sampan.api.label_selector import LabelSelector, selector_of
from sampan.api.labels import NOTHING, Selector
from sampan.api.semantics.owners import controller_of
from sampan.machinery.informer import Lister
from sampan.machinery.object_key import Key, key_of

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
        owners.add_index(self._by_demand)

    def keys(self, obj: Any) -> Iterable[Key]:
        """Return the keys of the owners to reconcile when the object is added, changed or deleted; for `Watch.keys`."""
        reference = controller_of(obj)
        if reference is not None:
            return (Key(obj.metadata.namespace, reference.name),) if reference.kind == self._kind else ()
        return [key_of(owner) for owner in self.selecting(obj)]

    def selecting(self, obj: Any) -> Sequence[T]:
        """Return the owners in the object's namespace whose selectors match it."""
        meta = obj.metadata
        if not meta.labels:
            return []
        owners: list[T] = []
        for demand in (None, *meta.labels.items()):
            demanding = self._owners.find(self._by_demand, (meta.namespace, demand))
            owners += [owner for owner in demanding if self._selector(owner).matches(meta.labels)]
        return owners

    def _by_demand(self, owner: Any) -> Iterable[Hashable]:
        selector = self._selector(owner)
        if selector.is_everything or selector.is_nothing:
            return ()
        exact = selector.exact()
        return ((owner.metadata.namespace, exact[0] if exact else None),)
