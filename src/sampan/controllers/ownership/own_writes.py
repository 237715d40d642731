"""The resourceVersions of a controller's own writes, so that it does not act on a cache without them.

This relies on the resourceVersion being one increasing number for the whole store.
"""

import math
from collections.abc import Hashable
from typing import Any


class OwnWrites:
    def __init__(self) -> None:
        self._written: dict[Hashable, float] = {}

    def wrote(self, obj: Any) -> None:
        """Record the object from the response to a write."""
        self._written[obj.metadata.uid] = int(obj.metadata.resourceVersion)

    def gone(self, obj: Any) -> None:
        """Record that the object does not exist on the server, so that any cached copy is stale."""
        self._written[obj.metadata.uid] = math.inf

    def is_stale(self, obj: Any) -> bool:
        """Whether the cached object is older than the last write to it, so that a newer one is still to arrive."""
        written = self._written.get(obj.metadata.uid)
        if written is None:
            return False
        if int(obj.metadata.resourceVersion) < written:
            return True
        del self._written[obj.metadata.uid]
        return False

    def forget(self, uid: str) -> None:
        self._written.pop(uid, None)
