"""List queries and their results: served from the current cache, from a past state of the cache, or from the store."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from sampan.storage.backend import Backend, Compacted, FutureRevision, KeyValue, StorePage
from sampan.storage.cacher import list_options
from sampan.storage.cacher.contents import CacheContents, PastContents, SelectedItems
from sampan.storage.cacher.errors import CorruptValue, TooLargeVersion, VersionExpired
from sampan.storage.cacher.history import EventHistory
from sampan.storage.cacher.item import CacheItem, ItemMaker
from sampan.storage.cacher.object_fields import CachedResource
from sampan.storage.cacher.selection import ItemMatcher, ObjectSelection


@dataclass(frozen=True, slots=True)
class ListQuery:
    selection: ObjectSelection = field(default_factory=ObjectSelection)
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

    shape: CachedResource
    items: list[CacheItem]
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

    def join_chunks(self) -> bytes:
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


_STORE_PAGE = 500


def list_from_cache(
    contents: CacheContents, history: EventHistory, query: ListQuery, start: str, revision: int, now: int
) -> ListResult:
    """Return the page at `revision`, which must not be older than the history; `now` is that of the contents."""
    matcher = ItemMatcher(query.selection, contents.shape)
    state: CacheContents | PastContents = (
        contents if revision >= now else PastContents(contents, history.list_changes_after(revision))
    )
    selected = state.select(matcher, start=start, limit=query.page_size)
    remaining = None
    if selected.has_more and matcher.is_whole:
        remaining = state.count(matcher.namespace, start) - query.page_size
    return _page(contents.shape, query, selected, revision, remaining)


async def list_from_store(
    backend: Backend, maker: ItemMaker, shape: CachedResource, query: ListQuery, start: str, revision: int
) -> ListResult:
    """Return the page at a revision (0: now) that the cache cannot serve."""
    matcher = ItemMatcher(query.selection, shape)
    limit = query.page_size
    items: list[CacheItem] = []
    position = start
    while True:
        got = await _range(backend, shape, query, start, position, revision)
        revision = got.revision
        matching, is_full = _select_items(got.entries, maker, matcher, limit - len(items) if limit else 0)
        items += matching
        if is_full or not got.remaining:
            break
        position = got.entries[-1].key + "\0"
    remainder = got.remaining + sum([entry.key > items[-1].key for entry in got.entries]) if is_full else 0
    selected = SelectedItems(items, has_more=remainder > 0)
    return _page(shape, query, selected, revision, remainder if remainder and matcher.is_whole else None)


def _page(
    shape: CachedResource, query: ListQuery, selected: SelectedItems, revision: int, remaining: int | None
) -> ListResult:
    token = ""
    if selected.has_more:
        token = list_options.encode_continue(selected.items[-1].key, shape.scope(query.selection.namespace), revision)
    return ListResult(shape, selected.items, revision, token, remaining)


async def _range(
    backend: Backend, shape: CachedResource, query: ListQuery, start: str, path: str, revision: int
) -> StorePage:
    scope = shape.scope(query.selection.namespace)
    try:
        return await backend.range(scope, start=path, limit=_STORE_PAGE, revision=revision)
    except Compacted:
        if not query.continue_token:
            raise VersionExpired.for_list() from None
        raise VersionExpired.for_page(list_options.encode_continue_start(start, scope, list_options.PRESENT)) from None
    except FutureRevision as error:
        raise TooLargeVersion(error.revision, error.current) from None


def _select_items(
    entries: Sequence[KeyValue], maker: ItemMaker, matcher: ItemMatcher, limit: int
) -> tuple[list[CacheItem], bool]:
    """Return the matching items, and whether `limit` (0: all) was reached."""
    items: list[CacheItem] = []
    for entry in entries:
        try:
            item = maker.make(entry.key, entry.value, entry.revision)
        except CorruptValue:
            continue
        if matcher.matches(item):
            items.append(item)
            if len(items) == limit:
                return items, True
    return items, False
