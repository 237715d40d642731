"""An informer cache overlaid with assumed objects, which are decided but not written yet."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from sampan.machinery.informer import IndexFunction, Lister
from sampan.machinery.object_key import Key, key_of

T = TypeVar("T")


class Assumed(Generic[T]):
    def __init__(self, lister: Lister[T]) -> None:
        self._lister = lister
        self._assumed: dict[Key, tuple[str, T]] = {}
        """Assumed objects with the resource version that they are based on; a newer version from the server replaces
        them.
        """

    def get(self, name: str, namespace: str = "") -> T | None:
        real = self._lister.get(name, namespace)
        return None if real is None else self._shown(real)

    def find(self, index: IndexFunction, value: Hashable) -> list[T]:
        """Return the matching objects; the index covers the informer cache only."""
        return [self._shown(real) for real in self._lister.find(index, value)]

    def assume(self, changed: Any) -> None:
        """Overlay the object, which still has the resource version of the cached object that it is based on."""
        self._assumed[key_of(changed)] = (changed.metadata.resourceVersion, changed)

    def restore(self, obj: Any) -> None:
        self._assumed.pop(key_of(obj), None)

    def _shown(self, real: Any) -> T:
        if not self._assumed:
            return real  # type: ignore[no-any-return]
        key = key_of(real)
        assumed = self._assumed.get(key)
        if assumed is None:
            return real  # type: ignore[no-any-return]
        if assumed[0] != real.metadata.resourceVersion:
            del self._assumed[key]
            return real  # type: ignore[no-any-return]
        return assumed[1]
