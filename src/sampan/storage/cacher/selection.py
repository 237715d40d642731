"""The selection of objects in a list or watch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sampan.api.selectors.fields import FieldTerm
from sampan.storage.cacher.errors import UnsupportedField
from sampan.storage.cacher.item import CacheItem
from sampan.storage.cacher.object_fields import CachedResource

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"


class LabelMatcher(Protocol):
    """A label selector; it is hashable, and equal to another one with the same requirements."""

    def matches(self, labels: Mapping[str, str]) -> bool: ...

    def required_labels(self) -> Mapping[str, str]:
        """Return labels that every selected object has with exactly this value."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """All objects, restricted by the fields that are set."""

    namespace: str = ""
    name: str = ""
    labels: LabelMatcher | None = None
    fields: tuple[FieldTerm, ...] = ()

    @property
    def is_filtered(self) -> bool:
        """Whether there is a label selector, field selector or name; the namespace does not count."""
        return bool(self.labels is not None or self.fields or self.name)


class ItemMatcher:
    """A selection prepared for the items of one resource; the constructor raises `UnsupportedField`."""

    def __init__(self, selection: ObjectSelection, shape: CachedResource) -> None:
        self.namespace = selection.namespace if shape.is_namespaced else ""
        self.name = selection.name
        self.equal: list[tuple[int, str]] = []
        """The position and the value of each field that must have a certain value."""
        self.is_impossible = False
        """Whether two terms contradict each other, so that nothing can match."""
        self._unequal: dict[int, set[str]] = {}
        self._other_names: set[str] = set()
        self._other_namespaces: set[str] = set()
        self._labels = selection.labels
        self.required_labels = dict(selection.labels.required_labels()) if selection.labels is not None else {}
        for term in selection.fields:
            self._add(term, shape)
        self.is_whole = not (selection.is_filtered or self.name or self._other_namespaces)
        """Whether the selection matches everything in its namespace."""

    def matches(self, item: CacheItem) -> bool:
        if self.namespace and item.namespace != self.namespace:
            return False
        if self.is_whole:
            return True
        if self.name and item.name != self.name:
            return False
        fields = item.fields
        for position, value in self.equal:
            if fields[position] != value:
                return False
        for position, values in self._unequal.items():
            if fields[position] in values:
                return False
        if self._labels is not None and not self._labels.matches(item.labels):
            return False
        return self._passes_exclusions(item)

    def _passes_exclusions(self, item: CacheItem) -> bool:
        if self.is_impossible or (self._other_names and item.name in self._other_names):
            return False
        return not (self._other_namespaces and item.namespace in self._other_namespaces)

    def _add(self, term: FieldTerm, shape: CachedResource) -> None:
        if term.field == _NAME:
            self._add_name(term)
        elif term.field == _NAMESPACE:
            self._add_namespace(term, shape)
        elif (position := shape.positions.get(term.field)) is None:
            raise UnsupportedField(term.field)
        elif term.is_negated:
            self._unequal.setdefault(position, set()).add(term.value)
        else:
            value = dict(self.equal).get(position)
            self.is_impossible |= value not in (None, term.value)
            if value is None:
                self.equal.append((position, term.value))

    def _add_name(self, term: FieldTerm) -> None:
        if term.is_negated:
            self._other_names.add(term.value)
        else:
            self.is_impossible |= not term.value or bool(self.name and self.name != term.value)
            self.name = term.value

    def _add_namespace(self, term: FieldTerm, shape: CachedResource) -> None:
        if term.is_negated:
            self._other_namespaces.add(term.value)
        elif not shape.is_namespaced:
            self.is_impossible |= bool(term.value)
        else:
            self.is_impossible |= not term.value or bool(self.namespace and self.namespace != term.value)
            self.namespace = term.value
