"""The namespaced name of an object, which caches and work queues use as key."""

from typing import Any, NamedTuple


class Key(NamedTuple):
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Any) -> Key:
    meta = obj.metadata
    return Key(meta.namespace, meta.name)
