"""Allocation of node ports: a bitmap in one record of the store, changed by compare-and-swap."""

import random
from collections.abc import Callable, Iterable
from typing import TypeVar

from sampan.apiserver.registry.allocation.port_bitmap import PortBitmap
from sampan.storage.backend import Backend, StoreConflict

KEY = "/registry/ranges/servicenodeports"

T = TypeVar("T")


class NodePortAllocator:
    def __init__(self, *, backend: Backend, ports: range) -> None:
        self._backend, self._ports = backend, ports
        self.random = random.Random()

    async def change(self, decide: Callable[[PortBitmap], T], *, dry_run: bool = False) -> T:
        """Store the changes that `decide` makes to the bitmap, and return its result.

        `decide` is called again after a conflict with another server, so it must not have other side effects.
        """
        while True:
            entry, _ = await self._backend.get(KEY)
            bitmap = PortBitmap.decode(self._ports, entry.value if entry is not None else None)
            decided = decide(bitmap)
            if dry_run or not bitmap.is_changed:
                return decided
            try:
                await self._backend.put(KEY, bitmap.encode(), expected=entry.revision if entry is not None else 0)
            except StoreConflict:
                continue
            return decided

    async def release(self, ports: Iterable[int]) -> None:
        released = tuple(ports)
        if released:
            await self.change(lambda bitmap: bitmap.release(released))
