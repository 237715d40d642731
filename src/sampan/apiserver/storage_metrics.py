"""Metrics of the watch caches, computed when /metrics is requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sampan.apiserver.registry.registry import Registry
from sampan.machinery.metrics import Labels, Metrics
from sampan.storage.cacher import CacherStats

Sample = tuple[Labels, float]
_LABELS = ("group", "resource")


def export_storage(metrics: Metrics, registry: Registry) -> None:
    def each(value: Callable[[CacherStats], float]) -> Callable[[], Iterator[Sample]]:
        def read() -> Iterator[Sample]:
            for store in registry.stores():
                shape = store.cacher.shape
                yield (shape.group, shape.plural), value(store.cacher.stats())

        return read

    objects = "Objects in the watch cache."
    metrics.function("apiserver_resource_objects", objects, each(lambda stats: stats.items), _LABELS)
    metrics.function("apiserver_storage_objects", objects, _qualified(registry), ("resource",))
    sizes = "Bytes of the objects in the watch cache."
    metrics.function("apiserver_resource_size_estimate_bytes", sizes, each(lambda stats: stats.item_bytes), _LABELS)
    for name, help, value, kind in (
        ("watch_cache_capacity", "Events in the history of the watch cache.", lambda s: s.history_events, "gauge"),
        ("watch_cache_resource_version", "Current resource version of the watch cache.", lambda s: s.revision, "gauge"),
        (
            "terminated_watchers_total",
            "Watchers terminated because they were too slow.",
            lambda s: s.cut_off,
            "counter",
        ),
        ("init_events_total", "Number of times that the watch cache was filled.", lambda s: s.fills, "counter"),
    ):
        metrics.function(f"apiserver_{name}", help, each(value), _LABELS, kind)
    metrics.function(
        "apiserver_registered_watchers", "Registered watchers by resource.", each(lambda s: s.watchers), _LABELS
    )


def _qualified(registry: Registry) -> Callable[[], Iterator[Sample]]:
    """Return samples for the older metric, whose only label combines the resource and the group."""

    def read() -> Iterator[Sample]:
        for store in registry.stores():
            shape = store.cacher.shape
            name = f"{shape.plural}.{shape.group}" if shape.group else shape.plural
            yield (name,), store.cacher.stats().items

    return read
