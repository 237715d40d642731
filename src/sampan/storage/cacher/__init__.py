"""The cacher: one watch cache per resource, between the API server and the store.

It keeps every object as the bytes that clients get, with the resource version in place, and serves GET, LIST and WATCH
from them. What belongs here: which state a read sees, paging, history, selection by index, the routing of events to
watchers. What does not: HTTP, authorization, other representations (they come in as encoders), and writes, which go to
the `Backend` and come back as events.

`cacher.py` is the whole in one place; `state.py` is what it knows, `reflector.py` how it learns it, `reads.py` how
lists are answered, `watcher.py` and `routes.py` how events get out.
"""

from sampan.storage.cacher.cacher import Cacher, CacherConfig, CacherStats
from sampan.storage.cacher.errors import (
    CacheError,
    CorruptValue,
    Expired,
    InvalidContinue,
    InvalidVersion,
    NotReady,
    TooLargeVersion,
    TooSlow,
    UnsupportedField,
    WatchClosed,
)
from sampan.storage.cacher.event import ADDED, BOOKMARK, DELETED, MODIFIED, FrameEncoder, WatchEvent
from sampan.storage.cacher.freshness import SharedRevision
from sampan.storage.cacher.history import HistoryBudget, HistoryLimits
from sampan.storage.cacher.item import Item
from sampan.storage.cacher.listing import ListQuery, ListResult
from sampan.storage.cacher.options import Options, defaulted, faults
from sampan.storage.cacher.selection import LabelSelector, Selection
from sampan.storage.cacher.shape import Field, Shape
from sampan.storage.cacher.watch_budget import Charge, WatchBudget
from sampan.storage.cacher.watcher import Watcher, WatchLimits, WatchQuery

__all__ = [
    "ADDED",
    "BOOKMARK",
    "DELETED",
    "MODIFIED",
    "CacheError",
    "Cacher",
    "CacherConfig",
    "CacherStats",
    "Charge",
    "CorruptValue",
    "Expired",
    "Field",
    "FrameEncoder",
    "HistoryBudget",
    "HistoryLimits",
    "InvalidContinue",
    "InvalidVersion",
    "Item",
    "LabelSelector",
    "ListQuery",
    "ListResult",
    "NotReady",
    "Options",
    "Selection",
    "Shape",
    "SharedRevision",
    "TooLargeVersion",
    "TooSlow",
    "UnsupportedField",
    "WatchBudget",
    "WatchClosed",
    "WatchEvent",
    "WatchLimits",
    "WatchQuery",
    "Watcher",
    "defaulted",
    "faults",
]
