"""The objects of a namespace, read and written in this process, which is much cheaper than a start of kubectl.

Tests use it for the objects that a command of kubectl needs, and for what the command has stored.
"""

from __future__ import annotations

from sampan.testing import Cluster
from sampan.testing.manifests import Manifest, Object, Objects
from sampan.testing.wait_conditions import Condition

_TIMEOUT_S = 60


class NamespaceObjects:
    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self.namespace = cluster, namespace

    def apply(self, manifest: Manifest) -> Objects:
        """Create the objects of a manifest, or change them, by server-side apply."""
        return self._cluster.apply(manifest, namespace=self.namespace)

    def get(self, target: str) -> Object:
        """Return the object `kind/name`. Raise LookupError if it does not exist."""
        return self._cluster.get(target, namespace=self.namespace)

    def list(self, kind: str, *, labels: str = "") -> Objects:
        return self._cluster.list(kind, namespace=self.namespace, labels=labels)

    def names(self, kind: str, *, labels: str = "") -> set[str]:
        return {value["metadata"]["name"] for value in self.list(kind, labels=labels)}

    def delete(self, target: str) -> None:
        """Start the deletion of the object `kind/name`."""
        self._cluster.delete(target, namespace=self.namespace)

    def wait_for(self, target: str, condition: Condition) -> None:
        """Wait until the object `kind/name` meets a condition, in the syntax of `kubectl wait --for`."""
        self._cluster.wait_for(target, condition, namespace=self.namespace, timeout_s=_TIMEOUT_S)
