"""Which rules hold others, and how what is missing is told."""

from collections.abc import Iterator, Sequence
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api import limits
from sampan.api.types.rbac_v1 import PolicyRule
from sampan.apiserver.authz.rbac import policy_rules
from tests.apiserver.authz.rbac_objects import rule


@pytest.mark.parametrize(
    ("held", "requested", "lacking"),
    [
        ([rule("get list", "pods")], rule("get", "pods"), []),
        ([rule("get", "pods")], rule("get list", "pods"), ['{APIGroups:[""], Resources:["pods"], Verbs:["list"]}']),
        ([rule("*", "*", groups="*")], rule("get", "pods/log"), []),
        ([rule("get", "pods")], rule("*", "pods"), ['{APIGroups:[""], Resources:["pods"], Verbs:["*"]}']),
        ([rule("get", "*/log")], rule("get", "pods/log"), []),
        ([rule("get", "pods", names="a")], rule("get", "pods", names="a"), []),
        (
            [rule("get", "pods", names="a")],
            rule("get", "pods", names="a b"),
            ['{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}'],
        ),
        (
            [rule("get", "pods", names="a")],
            rule("get", "pods"),
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
        ),
        ([rule("get", urls="/logs/*")], rule("get", urls="/logs/a"), []),
        (
            [rule("get", urls="/logs")],
            rule("get", urls="/logs/a"),
            ['{NonResourceURLs:["/logs/a"], Verbs:["get"]}'],
        ),
        ([rule("get", "pods"), rule("list", "pods")], rule("get list", "pods"), []),
        (
            [],
            rule("watch get", "secrets"),
            ['{APIGroups:[""], Resources:["secrets"], Verbs:["watch" "get"]}'],
        ),
    ],
)
def test_rules_that_are_not_covered_are_described(
    held: list[PolicyRule], requested: PolicyRule, lacking: list[str]
) -> None:
    uncovered = policy_rules.uncovered_rules(held, [requested])
    assert uncovered.is_complete
    assert [policy_rules.described(part) for part in uncovered.rules] == lacking


# -- the same as taking the wanted rules apart, atom by atom ---------------------------------------------------------


def _atoms(requested: PolicyRule) -> Iterator[PolicyRule]:
    for group, resource, verb in product(requested.apiGroups, requested.resources, requested.verbs or ()):
        for names in [[name] for name in requested.resourceNames] or [[]]:
            yield PolicyRule(verbs=[verb], apiGroups=[group], resources=[resource], resourceNames=names)
    for url, verb in product(requested.nonResourceURLs, requested.verbs or ()):
        yield PolicyRule(verbs=[verb], nonResourceURLs=[url])


def _holds(own: PolicyRule, atom: PolicyRule) -> bool:
    def has(words: Sequence[str], word: str) -> bool:
        return "*" in words or word in words

    if not has(own.verbs or (), (atom.verbs or [""])[0]):
        return False
    if atom.nonResourceURLs:
        url = atom.nonResourceURLs[0]
        return any(
            url == held or (held.endswith("*") and url.startswith(held.rstrip("*"))) for held in own.nonResourceURLs
        )
    resource = atom.resources[0]
    of_all = "*/" + resource.partition("/")[2] if "/" in resource else resource
    return (
        has(own.apiGroups, atom.apiGroups[0])
        and (has(own.resources, resource) or of_all in own.resources)
        and (not own.resourceNames or (bool(atom.resourceNames) and atom.resourceNames[0] in own.resourceNames))
    )


def _uncovered_atoms(held: list[PolicyRule], requested: list[PolicyRule]) -> set[str]:
    """As the real server does it: all atoms, then those that differ in their verbs put together."""
    urls: list[PolicyRule] = []
    rules: dict[tuple[str, ...], PolicyRule] = {}
    for atom in (atom for want in requested for atom in _atoms(want)):
        if any(_holds(own, atom) for own in held):
            continue
        if atom.nonResourceURLs:
            urls.append(atom)
            continue
        known = rules.setdefault((atom.apiGroups[0], atom.resources[0], *atom.resourceNames), atom)
        if known is not atom:
            known.verbs = [*(known.verbs or ()), *(atom.verbs or ())]
    return {policy_rules.described(part) for part in (*urls, *rules.values())}


def _words(*words: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(words), max_size=4)


_RESOURCE_RULES = st.builds(
    PolicyRule,
    verbs=_words("get", "list", "watch", "*"),
    apiGroups=_words("", "apps", "batch", "*"),
    resources=_words("pods", "pods/log", "jobs", "jobs/log", "*/log", "*"),
    resourceNames=st.one_of(st.just([]), _words("a", "b", "c", "")),
)
_URL_RULES = st.builds(
    PolicyRule, verbs=_words("get", "post", "*"), nonResourceURLs=_words("/a", "/a/*", "/a/b", "/b*", "*", "/")
)
_RULES = st.lists(st.one_of(_RESOURCE_RULES, _RESOURCE_RULES, _URL_RULES), max_size=6)


@given(_RULES, _RULES)
@settings(max_examples=500)
def test_the_same_is_missing_as_atom_by_atom(held: list[PolicyRule], requested: list[PolicyRule]) -> None:
    uncovered = policy_rules.uncovered_rules(held, requested)
    assert {policy_rules.described(part) for part in uncovered.rules} == _uncovered_atoms(held, requested)


# -- rules that are made to be expensive -----------------------------------------------------------------------------


def test_a_rule_that_names_billions_of_atoms_costs_what_its_words_cost() -> None:
    words = [f"w{number}" for number in range(2000)]
    requested = PolicyRule(verbs=words, apiGroups=words, resources=words, resourceNames=words)
    assert not policy_rules.uncovered_rules([PolicyRule(verbs=["*"], apiGroups=["*"], resources=["*"])], [requested])
    uncovered = policy_rules.uncovered_rules([rule("get", "pods")], [requested])
    assert not uncovered.is_complete
    assert sum(len(policy_rules.described(part)) for part in uncovered.rules) < 2 * limits.MISSING_RULES_CHARACTERS


def test_rules_made_to_be_compared_in_every_way_are_refused() -> None:
    """No held rule covers a whole dimension, and each word is held by other rules than the next."""
    random = Random(1)
    words = [f"w{number}" for number in range(60)]

    def half() -> list[str]:
        return random.sample(words, 30)

    held = [PolicyRule(verbs=half(), apiGroups=half(), resources=half(), resourceNames=half()) for _ in range(400)]
    with pytest.raises(policy_rules.TooComplex):
        policy_rules.uncovered_rules(
            held, [PolicyRule(verbs=words, apiGroups=words, resources=words, resourceNames=words)]
        )
