"""What a controller itself wrote last, so that it does not act on a cache that does not show that yet.

The version of an object is a number that only rises: one count for the whole store.
"""

import math
from collections.abc import Hashable
from typing import Any


class OwnWrites:
    def __init__(self) -> None:
        self._written: dict[Hashable, float] = {}

    def wrote(self, obj: Any) -> None:
        """The object is as the server answered a write."""
        self._written[obj.metadata.uid] = int(obj.metadata.resourceVersion)

    def gone(self, obj: Any) -> None:
        """The server has the object no more: whatever a cache still shows of it is stale."""
        self._written[obj.metadata.uid] = math.inf

    def is_stale(self, obj: Any) -> bool:
        """The object, from a cache, is older than what was written: a newer one is on its way."""
        written = self._written.get(obj.metadata.uid)
        if written is None:
            return False
        if int(obj.metadata.resourceVersion) < written:
            return True
        del self._written[obj.metadata.uid]
        return False

    def forget(self, uid: str) -> None:
        self._written.pop(uid, None)


__all__ = ["OwnWrites"]
