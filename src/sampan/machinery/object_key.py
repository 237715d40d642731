"""The namespaced name of an object, which caches and work queues use as key."""

from typing import Any, NamedTuple


class NamespacedName(NamedTuple):
    namespace: str
    """The namespace of the object; empty for cluster-scoped objects."""
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Any) -> NamespacedName:
    meta = obj.metadata
    return NamespacedName(meta.namespace, meta.name)
