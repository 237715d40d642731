"""A type of objects that an API server serves, as discovery describes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResourceType:
    group: str
    version: str
    plural: str
    singular: str
    kind: str
    is_namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The form that kubectl prints before a name: pod, deployment.apps."""
        name = self.kind.lower()
        return f"{name}.{self.group}" if self.group else name

    @property
    def group_resource(self) -> str:
        """The plural name with its group: pods, deployments.apps."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def collection(self, namespace: str) -> str:
        """Return the path of the collection, in a namespace if one is given."""
        inside = f"/namespaces/{namespace}" if self.is_namespaced and namespace else ""
        return f"{self.path}{inside}/{self.plural}"

    def object(self, namespace: str, name: str) -> str:
        return f"{self.collection(namespace)}/{name}"

    def __str__(self) -> str:
        """Return the type as Go prints a GroupVersionResource."""
        return f"{self.group}/{self.version}, Resource={self.plural}"
