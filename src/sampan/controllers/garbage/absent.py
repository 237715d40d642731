"""A cache of owners that are known not to exist, so that the server is queried once for all their dependents."""

from collections import OrderedDict

from sampan.api.resource import Resource
from sampan.machinery.object_key import Key


class AbsentOwners:
    """An LRU cache of absent owners. UIDs are never reused, so that an absent owner stays absent."""

    def __init__(self, most: int = 5000) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, str, Key, str], None] = OrderedDict()

    def add(self, resource: Resource, key: Key, uid: str) -> None:
        self._known[resource.group, resource.plural, key, uid] = None
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def has(self, resource: Resource, key: Key, uid: str) -> bool:
        identity = (resource.group, resource.plural, key, uid)
        if identity not in self._known:
            return False
        self._known.move_to_end(identity)
        return True
