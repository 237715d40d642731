"""The declaration of a resource: its names, scope, verbs, subresources and storage.

There is one `Resource` per group, version and plural name. It has the identity only: the API server attaches behavior
(strategy, table columns) in declarations of its own that refer to it. Built-in resources are rows of `resources`;
custom ones are created from their CustomResourceDefinition.
"""

import base64
import hashlib
from dataclasses import dataclass

from sampan.api.schema.tree import SchemaSource

STANDARD_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVersionKind:
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    name: str
    verbs: tuple[str, ...]
    kind: GroupVersionKind | str
    """The kind that it reads and writes; a plain name is a kind of the resource's own group and version."""
    gate: str = ""
    """The feature gate without which it is not served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectableField:
    """A field for field selectors, besides metadata.name and metadata.namespace, which every resource has."""

    label: str
    paths: tuple[str, ...]
    """The paths of its value in the stored object; the first that is set counts. Without paths the value is always the
    default."""
    default: str = ""
    """The value of the field if no path is set in the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STANDARD_VERBS
    subresources: tuple[Subresource, ...] = ()
    """The subresources, sorted by name."""
    selectable: tuple[SelectableField, ...] = ()
    storage: GroupVersionKind | None = None
    """The storage version of its objects; None if they are not stored (reviews, bindings)."""
    storage_prefix: str = ""
    """The prefix of its storage keys, without a trailing slash."""
    advertised_storage: GroupVersionKind | None = None
    """The storage version in discovery's hash, if it differs from `storage`."""
    schema: SchemaSource | None = None
    """The schema of a custom resource, whose objects are dicts; None for a built-in one, whose objects have a generated
    type."""
    declared_list_kind: str = ""
    """The kind of its lists, if it is not the kind followed by "List"."""
    introduced: int = 0
    """The first minor version with this version of the kind; 0: it is older than all supported levels."""
    removed: int | None = None
    """The minor version from which on this version of the kind is not served; None: it is not planned."""
    gate: str = ""
    """The feature gate without which it is not served."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(group=self.group, version=self.version, kind=self.kind)

    @property
    def list_kind(self) -> str:
        return self.declared_list_kind or self.kind + "List"

    @property
    def is_custom(self) -> bool:
        return self.schema is not None

    @property
    def qualified(self) -> str:
        """The name in errors and RBAC, such as deployments.apps or pods."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)

    def kind_of(self, subresource: Subresource) -> GroupVersionKind:
        if isinstance(subresource.kind, GroupVersionKind):
            return subresource.kind
        return GroupVersionKind(group=self.group, version=self.version, kind=subresource.kind)

    def path(self, name: str, namespace: str = "") -> str:
        """Return the URL path of an object."""
        start = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{start}{scope}/{self.plural}/{name}"

    @property
    def is_storage_version(self) -> bool:
        """Whether objects are stored in this version, so that stored bytes can be passed on unchanged. Also true for
        resources that are not stored."""
        stored = self.storage
        return stored is None or (stored.version == self.version and stored.group == self.group)

    @property
    def storage_version_hash(self) -> str:
        """The hash in discovery by which clients notice a change of the storage version; empty if not stored."""
        stored = self.advertised_storage or self.storage
        if stored is None:
            return ""
        text = f"{stored.group}/{stored.version}/{stored.kind}"
        return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()
