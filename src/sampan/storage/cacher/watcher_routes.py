"""Dispatch of changes to the watchers that they concern, without evaluating the selections of all other watchers.

Watchers with the same selection form a group, whose selection is evaluated once per relevant change. A group is
registered under its most specific key: an object, a name, a field value, a label value, a namespace, or nothing. A
change is looked up under the keys that its object has or had."""

from collections.abc import Iterator

from sampan.storage.cacher.history import CacheChange
from sampan.storage.cacher.item import ADDED, DELETED, MODIFIED, CacheEvent, CacheItem
from sampan.storage.cacher.object_fields import CachedResource
from sampan.storage.cacher.selection import ItemMatcher, ObjectSelection
from sampan.storage.cacher.watch_budget import WatchBudget, WatchCharge
from sampan.storage.cacher.watcher import Watcher


class WatcherGroup:
    """The watchers that share a selection."""

    def __init__(self, matcher: ItemMatcher) -> None:
        self.matcher = matcher
        self.watchers: dict[Watcher, None] = {}

    def deliver(self, event: CacheEvent) -> list[Watcher]:
        """Queue the event for all watchers; return those that exceed their limits."""
        revision, size = event.item.revision, len(event.item.body)
        return [w for w in self.watchers if revision > w.after and not w.offer(event, size)]


def classify_change(matcher: ItemMatcher, change: CacheChange) -> str | None:
    """Return the event type of a change for a selection: entering the selection is ADDED, leaving it is DELETED."""
    new, old = change.new, change.old
    is_in = new is not None and matcher.matches(new)
    was_in = old is not None and matcher.matches(old)
    if is_in:
        return MODIFIED if was_in else ADDED
    return DELETED if was_in else None


def as_event(kind: str, change: CacheChange) -> CacheEvent:
    if kind is DELETED:
        if change.old is None:
            raise ValueError("nothing was there to delete")
        return CacheEvent(kind, change.old.with_revision(change.revision))
    if change.new is None:
        raise ValueError("nothing is there")
    return CacheEvent(kind, change.new)


Table = dict[str, list[WatcherGroup]]


class WatcherRoutes:
    def __init__(self, shape: CachedResource, budget: WatchBudget) -> None:
        self._shape = shape
        self._budget = budget
        self._groups: dict[ObjectSelection, WatcherGroup] = {}
        self._objects: Table = {}
        self._names: Table = {}
        self._fields: dict[int, Table] = {}
        self._labels: dict[str, Table] = {}
        self._namespaces: Table = {}
        self._everything: Table = {}

    def __len__(self) -> int:
        return sum([len(group.watchers) for group in self._groups.values()])

    def watchers(self) -> Iterator[Watcher]:
        for group in self._groups.values():
            yield from group.watchers

    def add(self, watcher: Watcher, matcher: ItemMatcher) -> None:
        selection = watcher.query.selection
        group = self._groups.get(selection)
        if group is None:
            group = self._groups[selection] = WatcherGroup(matcher)
            table, key = self._place(matcher)
            table.setdefault(key, []).append(group)
        group.watchers[watcher] = None
        self._budget.add(watcher)

    def remove(self, watcher: Watcher) -> None:
        """Remove the watcher; do nothing if it is not registered."""
        self._budget.remove(watcher)
        selection = watcher.query.selection
        group = self._groups.get(selection)
        if group is None or watcher not in group.watchers:
            return
        del group.watchers[watcher]
        if not group.watchers:
            del self._groups[selection]
            table, key = self._place(group.matcher)
            table[key].remove(group)
            if not table[key]:
                del table[key]
            self._drop_empty()

    def dispatch(self, change: CacheChange) -> None:
        """Queue a change for every watcher that it concerns."""
        events: dict[str, CacheEvent] = {}
        for group in self._find_groups(change):
            kind = classify_change(group.matcher, change)
            if kind is None:
                continue
            event = events.get(kind)
            if event is None:
                event = events[kind] = as_event(kind, change)
                event.charge = WatchCharge(self._budget, len(event.item.body))
            for watcher in group.deliver(event):
                watcher.terminate()
        if self._budget.is_exceeded:
            self._budget.relieve()

    def _place(self, matcher: ItemMatcher) -> tuple[Table, str]:
        if matcher.name:
            if matcher.namespace or not self._shape.is_namespaced:
                return self._objects, self._shape.key(matcher.namespace, matcher.name)
            return self._names, matcher.name
        if matcher.equal:
            position, value = max(matcher.equal, key=lambda term: self._shape.fields[term[0]].indexed)
            return self._fields.setdefault(position, {}), value
        if matcher.required_labels:
            label, value = next(iter(matcher.required_labels.items()))
            return self._labels.setdefault(label, {}), value
        if matcher.namespace:
            return self._namespaces, matcher.namespace
        return self._everything, ""

    def _drop_empty(self) -> None:
        for position in [offset for offset, table in self._fields.items() if not table]:
            del self._fields[position]
        for label in [label for label, table in self._labels.items() if not table]:
            del self._labels[label]

    def _find_groups(self, change: CacheChange) -> list[WatcherGroup]:
        item = change.new or change.old
        if item is None or not self._groups:
            return []
        groups = list(self._everything.get("", ()))
        if self._objects:
            groups += self._objects.get(item.key, ())
        if self._names:
            groups += self._names.get(item.name, ())
        if self._namespaces:
            groups += self._namespaces.get(item.namespace, ())
        other = change.old if item is change.new else None
        if self._fields:
            self._add_by_field(item, other, groups)
        if self._labels:
            self._add_by_label(item, other, groups)
        return groups

    def _add_by_field(self, item: CacheItem, other: CacheItem | None, groups: list[WatcherGroup]) -> None:
        for position, table in self._fields.items():
            value = item.fields[position]
            groups += table.get(value, ())
            if other is not None and (before := other.fields[position]) != value:
                groups += table.get(before, ())

    def _add_by_label(self, item: CacheItem, other: CacheItem | None, groups: list[WatcherGroup]) -> None:
        tables = self._labels
        for label, value in item.labels.items():
            if label in tables:
                groups += tables[label].get(value, ())
        if other is None or other.labels is item.labels:
            return
        for label, value in other.labels.items():
            if label in tables and item.labels.get(label) != value:
                groups += tables[label].get(value, ())
