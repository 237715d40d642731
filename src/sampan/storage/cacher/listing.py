"""List queries, their results and the encoding of the results."""

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
        """The page size, or 0 for everything; a list at resource version 0 ignores the limit."""
        return 0 if self.resource_version == "0" else max(self.limit, 0)


@dataclass(frozen=True, slots=True)
class ListResult:
    """Items at one revision; encoding only concatenates the bytes of the items."""

    shape: Shape
    items: list[Item]
    revision: int
    continue_token: str = ""
    remaining: int | None = None
    """The number of items after these; None if unknown, as with selectors."""

    @property
    def head(self) -> bytes:
        """The encoded list up to its first item."""
        metadata: dict[str, str | int] = {"resourceVersion": str(self.revision)}
        if self.continue_token or self.shape.is_custom:
            metadata["continue"] = self.continue_token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return b'%b%b,"items":[' % (self.shape.list_head, msgspec.json.encode(metadata))

    def raw(self) -> bytes:
        return b"".join(self.chunks())

    def chunks(self, size: int = 256 << 10) -> Iterator[bytes]:
        """Yield the encoded list in chunks of about `size` bytes, without splitting an item."""
        bare = None if self.shape.is_custom else self.shape.head
        lead, length = self.head + b"{", 0
        bodies: list[bytes] = []
        for item in self.items:
            # An unconverted object of another version keeps its kind and apiVersion.
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
