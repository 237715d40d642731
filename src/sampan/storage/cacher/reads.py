"""Serving of lists: from the current cache, from a past state of the cache, or from the store."""

from collections.abc import Sequence

from sampan.storage.backend import Backend, Compacted, Entry, FutureRevision, Page
from sampan.storage.cacher import continuing
from sampan.storage.cacher.contents import Contents, Found, Past
from sampan.storage.cacher.errors import CorruptValue, Expired, TooLargeVersion
from sampan.storage.cacher.history import History
from sampan.storage.cacher.item import Item, ItemMaker
from sampan.storage.cacher.listing import ListQuery, ListResult
from sampan.storage.cacher.selection import Matcher
from sampan.storage.cacher.shape import Shape

_STORE_PAGE = 500


def from_cache(
    contents: Contents, history: History, query: ListQuery, start: str, revision: int, now: int
) -> ListResult:
    """Return the page at `revision`, which must not be older than the history; `now` is that of the contents."""
    matcher = Matcher(query.selection, contents.shape)
    state: Contents | Past = contents if revision >= now else Past(contents, history.after(revision))
    selected = state.select(matcher, start=start, limit=query.page_size)
    remaining = None
    if selected.has_more and matcher.is_whole:
        remaining = state.count(matcher.namespace, start) - query.page_size
    return _page(contents.shape, query, selected, revision, remaining)


async def from_store(
    backend: Backend, maker: ItemMaker, shape: Shape, query: ListQuery, start: str, revision: int
) -> ListResult:
    """Return the page at a revision (0: now) that the cache cannot serve."""
    matcher = Matcher(query.selection, shape)
    limit = query.page_size
    items: list[Item] = []
    at = start
    while True:
        got = await _range(backend, shape, query, start, at, revision)
        revision = got.revision
        matching, is_full = _matching(got.entries, maker, matcher, limit - len(items) if limit else 0)
        items += matching
        if is_full or not got.remaining:
            break
        at = got.entries[-1].key + "\0"
    rest = got.remaining + sum([entry.key > items[-1].key for entry in got.entries]) if is_full else 0
    selected = Found(items, has_more=rest > 0)
    return _page(shape, query, selected, revision, rest if rest and matcher.is_whole else None)


def _page(shape: Shape, query: ListQuery, found: Found, revision: int, remaining: int | None) -> ListResult:
    token = ""
    if found.has_more:
        token = continuing.encode(found.items[-1].key, shape.scope(query.selection.namespace), revision)
    return ListResult(shape, found.items, revision, token, remaining)


async def _range(backend: Backend, shape: Shape, query: ListQuery, start: str, at: str, revision: int) -> Page:
    scope = shape.scope(query.selection.namespace)
    try:
        return await backend.range(scope, start=at, limit=_STORE_PAGE, revision=revision)
    except Compacted:
        if not query.continue_token:
            raise Expired.of_list() from None
        raise Expired.of_page(continuing.encode_start(start, scope, continuing.PRESENT)) from None
    except FutureRevision as error:
        raise TooLargeVersion(error.revision, error.current) from None


def _matching(entries: Sequence[Entry], maker: ItemMaker, matcher: Matcher, limit: int) -> tuple[list[Item], bool]:
    """Return the matching items, and whether `limit` (0: all) was reached."""
    items: list[Item] = []
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
