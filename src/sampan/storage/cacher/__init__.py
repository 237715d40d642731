"""The watch cache, one per resource, between the API server and the store (compare
`k8s.io/apiserver/pkg/storage/cacher`).

It keeps every object as the bytes that clients receive, with the resource version in place, and serves GET, LIST and
WATCH from them. The package contains the choice of the state that a read sees, paging, history, selection by index, and
the dispatch of events to watchers. It does not contain HTTP, authorization, other representations (which are passed in
as encoders) or writes, which go to the `Backend` and come back as events.

`cacher.py` combines the parts: `freshness.py` has the cached state, `reflector.py` fills it, `reads.py` serves
lists, `watcher.py` and `watcher_routes.py` dispatch events; `follower.py` is for parts of the server that act on stored
objects.
"""

from sampan.storage.cacher.cacher import Cacher, CacherConfig, CacherStats
from sampan.storage.cacher.errors import (
    CacheError,
    CorruptValue,
    InvalidContinue,
    InvalidVersion,
    NotReady,
    TooLargeVersion,
    TooSlow,
    UnsupportedField,
    VersionExpired,
    WatchClosed,
)
from sampan.storage.cacher.history import HistoryBudget, HistoryLimits
from sampan.storage.cacher.item import ADDED, BOOKMARK, DELETED, MODIFIED, CacheEvent, CacheItem, FrameEncoder
from sampan.storage.cacher.list_options import ListWatchOptions, apply_defaults, validate_options
from sampan.storage.cacher.object_fields import CachedField, CachedResource
from sampan.storage.cacher.reads import ListQuery, ListResult
from sampan.storage.cacher.selection import LabelMatcher, ObjectSelection
from sampan.storage.cacher.watch_budget import WatchBudget, WatchCharge
from sampan.storage.cacher.watcher import Watcher, WatchLimits, WatchQuery

__all__ = [
    "ADDED",
    "BOOKMARK",
    "DELETED",
    "MODIFIED",
    "CacheError",
    "CacheEvent",
    "CacheItem",
    "CachedField",
    "CachedResource",
    "Cacher",
    "CacherConfig",
    "CacherStats",
    "CorruptValue",
    "FrameEncoder",
    "HistoryBudget",
    "HistoryLimits",
    "InvalidContinue",
    "InvalidVersion",
    "LabelMatcher",
    "ListQuery",
    "ListResult",
    "ListWatchOptions",
    "NotReady",
    "ObjectSelection",
    "TooLargeVersion",
    "TooSlow",
    "UnsupportedField",
    "VersionExpired",
    "WatchBudget",
    "WatchCharge",
    "WatchClosed",
    "WatchLimits",
    "WatchQuery",
    "Watcher",
    "apply_defaults",
    "validate_options",
]
