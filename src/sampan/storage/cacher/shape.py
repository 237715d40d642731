"""What the cacher has to know about a resource: where its objects are, how they begin, what can be selected."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Field:
    """A field that field selectors may name, besides metadata.name and metadata.namespace, which every resource has."""

    label: str
    paths: tuple[str, ...]
    """Where its value is, dotted; the first that is set counts. None: it always has the default."""
    default: str = ""
    indexed: bool = False
    """Keep an index from value to objects."""
    aliases: tuple[str, ...] = ()
    """What other versions of the resource call it."""


@dataclass(frozen=True)
class Shape:
    prefix: str
    """Of the storage keys, with the slash at its end."""
    kind: str
    api_version: str
    plural: str
    group: str = ""
    list_kind: str = ""
    is_namespaced: bool = True
    fields: tuple[Field, ...] = ()
    is_custom: bool = False
    """Lists of custom objects print kind and apiVersion in each item, and an empty continue token; others do not."""
    bookmark_rest: bytes = b""
    """What a bookmark of this kind carries after its metadata, e.g. b',"spec":{},"status":{}'."""

    def __post_init__(self) -> None:
        if not self.prefix.endswith("/"):
            raise ValueError(f"prefix {self.prefix!r} must end with a slash")

    @cached_property
    def head(self) -> bytes:
        """How an object of this kind begins, up to its metadata."""
        return b'{"kind":"%b","apiVersion":"%b",' % (self.kind.encode(), self.api_version.encode())

    @cached_property
    def list_head(self) -> bytes:
        kind = self.list_kind or self.kind + "List"
        return b'{"kind":"%b","apiVersion":"%b","metadata":' % (kind.encode(), self.api_version.encode())

    @cached_property
    def positions(self) -> dict[str, int]:
        """Where a field's value is in `Item.fields`."""
        return {
            label: position for position, field in enumerate(self.fields) for label in (field.label, *field.aliases)
        }

    def key(self, namespace: str, name: str) -> str:
        return f"{self.prefix}{namespace}/{name}" if self.is_namespaced else self.prefix + name

    def scope(self, namespace: str) -> str:
        """The prefix of the keys in a namespace, or of all."""
        return f"{self.prefix}{namespace}/" if namespace and self.is_namespaced else self.prefix

    def namespace_of(self, key: str) -> str:
        if not self.is_namespaced:
            return ""
        namespace, slash, name = key[len(self.prefix) :].partition("/")
        if not slash or not name:
            raise ValueError("the key has no namespace")
        return namespace
