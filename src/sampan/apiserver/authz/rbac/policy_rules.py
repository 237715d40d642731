"""Comparison of policy rules: which of the requested permissions no held rule covers, and how they are reported.

The counterpart is `Covers` in `pkg/registry/rbac/validation`. An atom is one verb on one resource of one group with one
name, or one verb on one URL. A requested rule is covered if each of its atoms is covered by a single held rule.
Kubernetes enumerates all atoms, but a rule of a few kilobytes can have billions. Here words that the same held rules
contain form a class, and atoms are decided class by class. The set of rules that contain a class is stored as the bits
of an integer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_

from sampan.api import limits
from sampan.api.go_compat import gotext
from sampan.api.types.rbac_v1 import PolicyRule

ALL = "*"


class TooComplex(Exception):
    """The comparison of the rules would exceed the number of comparisons that one request may cause."""


@dataclass(frozen=True, slots=True)
class UncoveredRules:
    """The permissions in the requested rules that no held rule covers."""

    rules: list[PolicyRule]
    """The URLs with one verb each, then the missing verbs for each group, resource and name."""
    is_complete: bool = True
    """Whether `rules` lists all uncovered permissions; false if they do not fit into a response."""

    def __bool__(self) -> bool:
        return bool(self.rules)


def find_uncovered_rules(owned_rules: Sequence[PolicyRule], requested: Sequence[PolicyRule]) -> UncoveredRules:
    """Return the atoms of the requested rules that no held rule allows. Raise TooComplex if the comparison is too
    expensive."""
    budget = _ComparisonBudget()
    comparison = _RuleComparison(owned_rules, requested, budget)
    collected = _MissingPermissions()
    for rule in requested:
        verbs = comparison.verbs.classes(rule.verbs or ())
        if not verbs:
            continue
        if rule.apiGroups and rule.resources:
            names = comparison.names.classes(rule.resourceNames) if rule.resourceNames else comparison.unnamed
            groups, resources = comparison.groups.classes(rule.apiGroups), comparison.resources.classes(rule.resources)
            for parts in _RequestedRule((groups, resources, names, verbs), budget.spend).find_uncovered():
                if not collected.add_resources(rule, parts):
                    return collected.result(is_complete=False)
        if rule.nonResourceURLs:
            urls = comparison.urls.classes(rule.nonResourceURLs)
            for parts in _RequestedRule((urls, verbs), budget.spend).find_uncovered():
                if not collected.add_urls(parts):
                    return collected.result(is_complete=False)
    return collected.result(is_complete=True)


Parts = list[list[str]]
Classes = dict[int, list[str]]
"""Words by the set of held rules that contain them: bit n for rule n."""


class _ComparisonBudget:
    """The number of comparisons that are still allowed."""

    def __init__(self) -> None:
        self._left = limits.RBAC_COMPARISONS
        self.weight = 1
        """How many comparisons one of them counts as."""

    def spend(self, comparisons: int) -> None:
        self._left -= comparisons * self.weight
        if self._left < 0:
            raise TooComplex


class _RuleComparison:
    """The held rules, indexed by the words of the requested rules."""

    def __init__(
        self, owned_rules: Sequence[PolicyRule], requested: Sequence[PolicyRule], budget: _ComparisonBudget
    ) -> None:
        verbs = {word for rule in requested for word in rule.verbs or ()}
        resources = {word for rule in requested for word in rule.resources}
        owned_rules = [
            rule for rule in owned_rules if ALL in (rule.verbs or ()) or not verbs.isdisjoint(rule.verbs or ())
        ]
        budget.weight = 1 + len(owned_rules) // 1024
        self.verbs = _WordIndex([rule.verbs or () for rule in owned_rules], verbs, budget.spend)
        groups = {word for rule in requested for word in rule.apiGroups}
        self.groups = _WordIndex([rule.apiGroups for rule in owned_rules], groups, budget.spend)
        of_all = {_to_wildcard(word) for word in resources}
        self.resources = _ResourceIndex([rule.resources for rule in owned_rules], resources | of_all, budget.spend)
        names = {word for rule in requested for word in rule.resourceNames}
        self.names = _NameIndex([rule.resourceNames for rule in owned_rules], names, budget.spend)
        self.unnamed: Classes = {self.names.always: [""]}
        urls = {word for rule in requested for word in rule.nonResourceURLs}
        self.urls = _UrlIndex([rule.nonResourceURLs for rule in owned_rules], urls, budget.spend)


class _WordIndex:
    """The held rules that contain each requested word, in one dimension: verbs, groups, resources, names or URLs."""

    def __init__(
        self, rules: Sequence[Sequence[str]], requested: Collection[str], spend: Callable[[int], None]
    ) -> None:
        self._spend = spend
        self._size = len(rules)
        positions: dict[str, list[int]] = {}
        always: list[int] = []
        requested = set(requested)
        for number, words in enumerate(rules):
            if self._holds_all(words):
                always.append(number)
                continue
            for word in requested.intersection(words):
                positions.setdefault(word, []).append(number)
        self.always = self._bits(always)
        """The rules that hold every word."""
        self._by_word = self._masks(positions)

    def _holds_all(self, words: Sequence[str]) -> bool:
        return ALL in words

    def _masks(self, positions: dict[str, list[int]]) -> dict[str, int]:
        by_positions: dict[tuple[int, ...], int] = {}
        masks: dict[str, int] = {}
        for word, numbers in positions.items():
            key = tuple(numbers)
            if key not in by_positions:
                self._spend(1)
                by_positions[key] = self._bits(numbers)
            masks[word] = by_positions[key]
        return masks

    def _bits(self, numbers: Sequence[int]) -> int:
        bits = bytearray(self._size // 8 + 1)
        for number in numbers:
            bits[number >> 3] |= 1 << (number & 7)
        return int.from_bytes(bits, "little")

    def mask(self, word: str) -> int:
        return self._by_word.get(word, 0) | self.always

    def classes(self, words: Iterable[str]) -> Classes:
        classes: Classes = {}
        for word in dict.fromkeys(words):
            classes.setdefault(self.mask(word), []).append(word)
        return classes


class _ResourceIndex(_WordIndex):
    def mask(self, word: str) -> int:
        return self._by_word.get(word, 0) | self._by_word.get(_to_wildcard(word), 0) | self.always


class _NameIndex(_WordIndex):
    def _holds_all(self, words: Sequence[str]) -> bool:
        return not words


class _UrlIndex(_WordIndex):
    def __init__(
        self, rules: Sequence[Sequence[str]], requested: Collection[str], spend: Callable[[int], None]
    ) -> None:
        super().__init__(rules, requested, spend)
        positions: dict[str, list[int]] = {}
        for number, urls in enumerate(rules):
            for prefix in {url.rstrip(ALL) for url in urls if url.endswith(ALL)}:
                positions.setdefault(prefix, []).append(number)
        self._by_prefix = self._masks(positions)
        self._lengths = sorted({len(prefix) for prefix in self._by_prefix})

    def mask(self, word: str) -> int:
        mask = super().mask(word)
        for length in self._lengths:
            if length > len(word):
                break
            mask |= self._by_prefix.get(word[:length], 0)
        return mask


def _to_wildcard(resource: str) -> str:
    """Return the wildcard that covers this subresource of every resource."""
    _, slash, subresource = resource.partition("/")
    return f"*/{subresource}" if slash else resource


class _RequestedRule:
    """A requested rule: all combinations of the words of its dimensions."""

    def __init__(self, dimensions: Sequence[Classes], spend: Callable[[int], None]) -> None:
        self._dimensions, self._spend = dimensions, spend
        self._all_words = [[word for words in classes.values() for word in words] for classes in dimensions]
        self._full = [-1]
        """The rules that hold all words of the dimensions from a depth on, by depth."""
        for classes in reversed(dimensions):
            self._full.insert(0, reduce(and_, classes, self._full[0]))
        self._known: dict[tuple[int, int], list[Parts]] = {}

    def find_uncovered(self, depth: int = 0, owned_count: int = -1) -> Iterator[Parts]:
        """Return the parts that no single rule among `owned_count` covers: for each dimension from `depth` on a list of
        words, of which all combinations are missing."""
        if not owned_count:
            yield self._all_words[depth:]
        elif self._full[depth] & owned_count:
            return
        elif depth == len(self._dimensions) - 1:
            self._spend(len(self._dimensions[depth]))
            if uncovered := [
                word for mask, words in self._dimensions[depth].items() if not mask & owned_count for word in words
            ]:
                yield [uncovered]
        elif (depth, owned_count) in self._known:
            yield from self._known[depth, owned_count]
        else:
            yield from self._split(depth, owned_count)

    def _split(self, depth: int, owned_count: int) -> Iterator[Parts]:
        uncovered: list[Parts] = []
        for mask, words in self._dimensions[depth].items():
            self._spend(1)
            for below in self.find_uncovered(depth + 1, mask & owned_count):
                uncovered.append([words, *below])
                yield uncovered[-1]
        self._known[depth, owned_count] = uncovered


@dataclass(slots=True)
class _MissingPermissions:
    """The missing permissions in the form in which they are reported, as far as there is room for them."""

    urls: dict[tuple[str, str], None] = field(default_factory=dict)
    verbs: dict[tuple[str, str, tuple[str, ...]], list[str]] = field(default_factory=dict)
    """Missing verbs by group, resource and name, if there is one."""
    room: int = limits.MISSING_RULES_CHARACTERS

    def add_resources(self, rule: PolicyRule, parts: Sequence[Sequence[str]]) -> bool:
        """Add missing permissions for resources. Return False if there is no more room.

        As in kube-apiserver, a verb is listed as often as the words of the rule repeat it. Room is taken before the
        list is built: the product of repeated words can be as large as the memory.
        """
        groups, resources, names, verbs = parts
        counts = Counter(rule.apiGroups), Counter(rule.resources), Counter(rule.resourceNames or ("",))
        absent = set(verbs)
        lacking = [verb for verb in rule.verbs or () if verb in absent]
        characters = _count_characters(lacking)
        for group in groups:
            for resource in resources:
                for name in names:
                    again, times = counts[0][group] * counts[1][resource], counts[2][name]
                    if not self._take_room(_count_characters((group, resource, name)) + characters * again * times):
                        return False
                    key = (group, resource, (name,) if rule.resourceNames else ())
                    self.verbs.setdefault(key, []).extend([verb for verb in lacking for _ in range(times)] * again)
        return True

    def add_urls(self, parts: Sequence[Sequence[str]]) -> bool:
        for url in parts[0]:
            for verb in parts[1]:
                self.urls[url, verb] = None
                if not self._take_room(_count_characters((url, verb))):
                    return False
        return True

    def _take_room(self, characters: int) -> bool:
        """Take the room for so many characters, and return whether any is left."""
        self.room -= characters
        return self.room > 0

    def result(self, *, is_complete: bool) -> UncoveredRules:
        return UncoveredRules(
            [
                *(PolicyRule(verbs=[verb], nonResourceURLs=[url]) for url, verb in self.urls),
                *(
                    PolicyRule(verbs=verbs, apiGroups=[group], resources=[resource], resourceNames=list(names))
                    for (group, resource, names), verbs in self.verbs.items()
                ),
            ],
            is_complete,
        )


def _count_characters(words: Collection[str]) -> int:
    return sum(map(len, words)) + 4 * len(words)


def format_rule(rule: PolicyRule) -> str:
    """Return the rule as kube-apiserver formats it: {APIGroups:[""], Resources:["pods"], Verbs:["get"]}."""
    lists = (
        ("APIGroups", rule.apiGroups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.nonResourceURLs),
        ("ResourceNames", rule.resourceNames),
        ("Verbs", rule.verbs or ()),
    )
    return "{" + ", ".join(f"{name}:{quote_list(words)}" for name, words in lists if words) + "}"


def quote_list(words: Iterable[str]) -> str:
    """Return the words as Go formats a list of quoted strings."""
    return "[" + " ".join(map(gotext.quote, words)) + "]"
