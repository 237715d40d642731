"""Lists: the query, the answer, and the answer as bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from sampan.storage.cacher.item import Item
from sampan.storage.cacher.selection import Selection
from sampan.storage.cacher.shape import Shape


@dataclass(frozen=True, slots=True)
class ListQuery:
    selection: Selection = field(default_factory=Selection)
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    continue_token: str = ""

    @property
    def page_size(self) -> int:
        """0: everything. From version 0 the answer comes whole, whatever the limit."""
        return 0 if self.resource_version == "0" else max(self.limit, 0)


@dataclass(frozen=True, slots=True)
class ListResult:
    """Items at one revision. Rendering takes bytes as they are and only joins them."""

    shape: Shape
    items: list[Item]
    revision: int
    continue_token: str = ""
    remaining: int | None = None
    """How many more there are after these; not known with selectors."""

    @property
    def head(self) -> bytes:
        """The list up to its first item."""
        metadata: dict[str, str | int] = {"resourceVersion": str(self.revision)}
        if self.continue_token or self.shape.is_custom:
            metadata["continue"] = self.continue_token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return b'%b%b,"items":[' % (self.shape.list_head, msgspec.json.encode(metadata))

    def raw(self) -> bytes:
        return b"".join(self.chunks())

    def chunks(self, size: int = 256 << 10) -> Iterator[bytes]:
        """The whole list in pieces of about `size` bytes, no piece cutting an item."""
        bare = None if self.shape.is_custom else self.shape.head
        lead, length = self.head + b"{", 0
        bodies: list[bytes] = []
        for item in self.items:
            # An object of another version, which nobody converted, shows that it is one.
            body = item.body if item.head is bare else item.head[1:] + item.body
            bodies.append(body if bodies else lead + body)
            length += len(body)
            if length >= size:
                yield b",{".join(bodies)
                bodies.clear()
                lead, length = b",{", 0
        if not self.items:
            bodies.append(self.head)
        yield b",{".join(bodies) + b"]}"
