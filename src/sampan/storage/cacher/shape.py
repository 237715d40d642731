"""What the cacher needs to know about a resource: its key prefix, its kind and its selectable fields."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Field:
    """A selectable field, in addition to metadata.name and metadata.namespace, which every resource has."""

    label: str
    paths: tuple[str, ...]
    """Dotted paths of the value, of which the first that is set counts; without paths the value is the default."""
    default: str = ""
    indexed: bool = False
    """Whether to maintain an index from values to objects."""
    aliases: tuple[str, ...] = ()
    """Names of the field in other API versions of the resource."""


@dataclass(frozen=True)
class Shape:
    prefix: str
    """The prefix of the storage keys, including the trailing slash."""
    kind: str
    api_version: str
    plural: str
    group: str = ""
    list_kind: str = ""
    is_namespaced: bool = True
    fields: tuple[Field, ...] = ()
    is_custom: bool = False
    """Whether this is a custom resource, whose lists include kind and apiVersion in items, and an empty continue token.
    """
    bookmark_rest: bytes = b""
    """What a bookmark of this kind contains after its metadata, for example b',"spec":{},"status":{}'."""

    def __post_init__(self) -> None:
        if not self.prefix.endswith("/"):
            raise ValueError(f"prefix {self.prefix!r} must end with a slash")

    @cached_property
    def head(self) -> bytes:
        """The start of the JSON of an object of this kind, up to its metadata."""
        return b'{"kind":"%b","apiVersion":"%b",' % (self.kind.encode(), self.api_version.encode())

    @cached_property
    def list_head(self) -> bytes:
        kind = self.list_kind or self.kind + "List"
        return b'{"kind":"%b","apiVersion":"%b","metadata":' % (kind.encode(), self.api_version.encode())

    @cached_property
    def positions(self) -> dict[str, int]:
        """The index in `Item.fields` of each field name."""
        return {
            label: position for position, field in enumerate(self.fields) for label in (field.label, *field.aliases)
        }

    def key(self, namespace: str, name: str) -> str:
        return f"{self.prefix}{namespace}/{name}" if self.is_namespaced else self.prefix + name

    def scope(self, namespace: str) -> str:
        """Return the prefix of the keys in a namespace, or of all keys."""
        return f"{self.prefix}{namespace}/" if namespace and self.is_namespaced else self.prefix

    def namespace_of(self, key: str) -> str:
        if not self.is_namespaced:
            return ""
        namespace, slash, name = key[len(self.prefix) :].partition("/")
        if not slash or not name:
            raise ValueError("the key has no namespace")
        return namespace
