"""The desired nftables table of a node and the changes since the last transaction, as text for `nft -f -`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

_ELEMENTS_PER_LINE: Final = 200
_DELETE_DELAY_S: Final = 1.0
"""Seconds between emptying and deleting a chain. Kernels before 6.2 count a reference to a chain for a moment after the
map element with it was deleted."""


@dataclass(frozen=True, slots=True)
class TableChain:
    rules: Sequence[str]
    hook: str = ""
    """The hook and priority of a base chain; empty for other chains."""


class PolicyTable:
    """The content of an nftables table. Methods change the desired content; `changes` returns the difference.

    A name that is not used any more is emptied at once and deleted by a later transaction.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.chains: dict[str, TableChain] = {}
        self.sets: dict[str, str] = {}
        """Declarations (`set NAME { type …; }`) by name."""
        self.elements: dict[str, dict[str, str]] = {}
        """Elements by set name: key, and the value in a map, otherwise an empty string."""
        self._changed_chains: dict[str, None] = {}
        self._new_sets: dict[str, None] = {}
        self._old_elements: dict[str, dict[str, str | None]] = {}
        """The committed values of the elements that were changed since the last transaction; None for new ones."""
        self._unused_chains: dict[str, float] = {}
        """Chains that await deletion, with the time at which they were emptied; infinite before that."""
        self._unused_sets: dict[str, float] = {}
        self._committed: set[str] = set()
        """The names of the chains and sets that exist in the kernel."""

    # -- desired content ---------------------------------------------------------------------------------------------

    def put_chain(self, name: str, content: TableChain) -> None:
        if self.chains.get(name) != content:
            self.chains[name] = content
            self._unused_chains.pop(name, None)
            self._changed_chains[name] = None

    def remove_chain(self, name: str) -> None:
        if self.chains.pop(name, None) is not None:
            self._changed_chains.pop(name, None)
            if name in self._committed:
                self._unused_chains[name] = float("inf")

    def put_set(self, name: str, declaration: str) -> None:
        if name not in self.sets:
            self.sets[name] = declaration
            self.elements[name] = {}
            self._unused_sets.pop(name, None)
            self._old_elements.pop(name, None)
            self._new_sets[name] = None

    def remove_set(self, name: str) -> None:
        if self.sets.pop(name, None) is not None:
            del self.elements[name]
            self._old_elements.pop(name, None)
            self._new_sets.pop(name, None)
            if name in self._committed:
                self._unused_sets[name] = float("inf")

    def put_element(self, name: str, key: str, value: str = "") -> None:
        old = self.elements[name].get(key)
        if old != value:
            self._remember(name, key, old)
            self.elements[name][key] = value

    def remove_element(self, name: str, key: str) -> None:
        old = self.elements[name].pop(key, None)
        if old is not None:
            self._remember(name, key, old)

    def _remember(self, name: str, key: str, old: str | None) -> None:
        if name not in self._new_sets:
            self._old_elements.setdefault(name, {}).setdefault(key, old)

    # -- text --------------------------------------------------------------------------------------------------------

    @property
    def is_changed(self) -> bool:
        unused = chain(self._unused_chains.values(), self._unused_sets.values())
        return bool(
            self._changed_chains or self._new_sets or self._old_elements or any(time == float("inf") for time in unused)
        )

    def changes(self, now: float) -> str:
        """Return the changes since the previous call as text, and consider them committed.

        After a failed transaction the table must be replaced with `render_replacement`.
        """
        lines = [
            *self._deletions(now),
            *(line for name in self._new_sets for line in (self._add_set(name), f"flush set inet {self.name} {name}")),
            *(self._add_chain(name) for name in self._changed_chains),
            *self._empty_unused(now),
        ]
        for name in self._changed_chains:
            lines += [f"flush chain inet {self.name} {name}", *self._add_rules(name)]
        for name, old in self._old_elements.items():
            lines += self._element_changes(name, old)
        for name in self._new_sets:
            lines += self._element_lines("add", name, self.elements[name])
        self._forget_changes()
        return "".join(f"{line}\n" for line in lines)

    def render_replacement(self, without: Collection[str] = ()) -> str:
        """Return the text that replaces the whole table, and consider it committed. The chains `without` stay empty."""
        self._forget_changes()
        self._unused_chains.clear()
        self._unused_sets.clear()
        self._committed = {*self.chains, *self.sets}
        lines = [f"add table inet {self.name}", f"delete table inet {self.name}", f"add table inet {self.name}"]
        lines += [self._add_set(name) for name in self.sets]
        lines += [self._add_chain(name) for name in self.chains]
        for name in self.chains:
            if name not in without:
                lines += self._add_rules(name)
        used = {
            word[1:] for name in without for rule in self.chains[name].rules for word in rule.split() if word[0] == "@"
        }
        for name, elements in self.elements.items():
            if name not in used:
                lines += self._element_lines("add", name, elements)
        return "".join(f"{line}\n" for line in lines)

    def additions(self) -> str:
        """Return the text that adds the content to a table that may exist, and leaves the rest of that table."""
        lines = [f"add table inet {self.name}", *map(self._add_set, self.sets), *map(self._add_chain, self.chains)]
        for name in self.chains:
            lines += [f"flush chain inet {self.name} {name}", *self._add_rules(name)]
        for name, elements in self.elements.items():
            lines += self._element_lines("add", name, elements)
        return "".join(f"{line}\n" for line in lines)

    def removal(self) -> str:
        return f"add table inet {self.name}\ndelete table inet {self.name}\n"

    def _forget_changes(self) -> None:
        self._committed.update(self._changed_chains, self._new_sets)
        self._changed_chains.clear()
        self._new_sets.clear()
        self._old_elements.clear()

    def _deletions(self, now: float) -> Iterator[str]:
        for kind, unused in (("chain", self._unused_chains), ("set", self._unused_sets)):
            for name in [name for name, since in unused.items() if since + _DELETE_DELAY_S <= now]:
                del unused[name]
                self._committed.discard(name)
                yield f"delete {kind} inet {self.name} {name}"

    def _empty_unused(self, now: float) -> Iterator[str]:
        for name, since in self._unused_chains.items():
            if since == float("inf"):
                self._unused_chains[name] = now
                yield f"flush chain inet {self.name} {name}"
        for name, since in self._unused_sets.items():
            self._unused_sets[name] = min(since, now)

    def _add_set(self, name: str) -> str:
        kind, _, content = self.sets[name].partition(" ")
        return f"add {kind} inet {self.name} {name} {content}"

    def _add_chain(self, name: str) -> str:
        hook = self.chains[name].hook
        return f"add chain inet {self.name} {name}" + (f" {{ {hook} }}" if hook else "")

    def _add_rules(self, name: str) -> Iterator[str]:
        return (f"add rule inet {self.name} {name} {rule}" for rule in self.chains[name].rules)

    def _element_changes(self, name: str, old: Mapping[str, str | None]) -> Iterator[str]:
        current = self.elements[name]
        changed = {key: value for key, value in old.items() if value != current.get(key)}
        yield from self._element_lines("delete", name, {key: "" for key, value in changed.items() if value is not None})
        yield from self._element_lines("add", name, {key: current[key] for key in changed if key in current})

    def _element_lines(self, verb: str, name: str, elements: Mapping[str, str]) -> Iterator[str]:
        items = iter(elements.items())
        while batch := list(islice(items, _ELEMENTS_PER_LINE)):
            yield f"{verb} element inet {self.name} {name} {{ {', '.join(_texts(batch))} }}"


def _texts(elements: Iterable[tuple[str, str]]) -> Iterator[str]:
    return (f"{key} : {value}" if value else key for key, value in elements)
