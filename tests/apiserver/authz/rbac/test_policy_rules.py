"""Which RBAC rules cover other rules, and descriptions of the rules that are not covered."""

import gc
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
    ("held", "requested", "descriptions"),
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
def test_uncovered_rules_are_described(held: list[PolicyRule], requested: PolicyRule, descriptions: list[str]) -> None:
    uncovered = policy_rules.find_uncovered_rules(held, [requested])
    assert uncovered.is_complete
    assert [policy_rules.format_rule(part) for part in uncovered.rules] == descriptions


# -- the oracle: evaluation of every atom of the requested rules -----------------------------------------------------


def _atoms(requested: PolicyRule) -> Iterator[PolicyRule]:
    for group, resource, verb in product(requested.apiGroups, requested.resources, requested.verbs or ()):
        for names in [[name] for name in requested.resourceNames] or [[]]:
            yield PolicyRule(verbs=[verb], apiGroups=[group], resources=[resource], resourceNames=names)
    for url, verb in product(requested.nonResourceURLs, requested.verbs or ()):
        yield PolicyRule(verbs=[verb], nonResourceURLs=[url])


def _covers(held_rule: PolicyRule, atom: PolicyRule) -> bool:
    def has(words: Sequence[str], word: str) -> bool:
        return "*" in words or word in words

    if not has(held_rule.verbs or (), (atom.verbs or [""])[0]):
        return False
    if atom.nonResourceURLs:
        url = atom.nonResourceURLs[0]
        return any(
            url == held or (held.endswith("*") and url.startswith(held.rstrip("*")))
            for held in held_rule.nonResourceURLs
        )
    resource = atom.resources[0]
    of_all = "*/" + resource.partition("/")[2] if "/" in resource else resource
    return (
        has(held_rule.apiGroups, atom.apiGroups[0])
        and (has(held_rule.resources, resource) or of_all in held_rule.resources)
        and (
            not held_rule.resourceNames
            or (bool(atom.resourceNames) and atom.resourceNames[0] in held_rule.resourceNames)
        )
    )


def _uncovered_atoms(held: list[PolicyRule], requested: list[PolicyRule]) -> set[str]:
    """Expand all atoms and merge those that differ only in their verbs, as kube-apiserver does."""
    urls: list[PolicyRule] = []
    rules: dict[tuple[str, ...], PolicyRule] = {}
    for atom in (atom for requested_rule in requested for atom in _atoms(requested_rule)):
        if any(_covers(held_rule, atom) for held_rule in held):
            continue
        if atom.nonResourceURLs:
            urls.append(atom)
            continue
        known = rules.setdefault((atom.apiGroups[0], atom.resources[0], *atom.resourceNames), atom)
        if known is not atom:
            known.verbs = [*(known.verbs or ()), *(atom.verbs or ())]
    return {policy_rules.format_rule(part) for part in (*urls, *rules.values())}


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
def test_uncovered_rules_agree_with_atom_by_atom_evaluation(
    held: list[PolicyRule], requested: list[PolicyRule]
) -> None:
    uncovered = policy_rules.find_uncovered_rules(held, requested)
    assert {policy_rules.format_rule(part) for part in uncovered.rules} == _uncovered_atoms(held, requested)


# -- rules that are expensive to compare -----------------------------------------------------------------------------


def test_rule_with_billions_of_atoms_is_compared_without_expansion() -> None:
    words = [f"w{number}" for number in range(2000)]
    requested = PolicyRule(verbs=words, apiGroups=words, resources=words, resourceNames=words)
    assert not policy_rules.find_uncovered_rules(
        [PolicyRule(verbs=["*"], apiGroups=["*"], resources=["*"])], [requested]
    )
    uncovered = policy_rules.find_uncovered_rules([rule("get", "pods")], [requested])
    assert not uncovered.is_complete
    assert sum(len(policy_rules.format_rule(part)) for part in uncovered.rules) < 2 * limits.MISSING_RULES_CHARACTERS


def test_too_complex_comparison_of_rules_is_rejected() -> None:
    """No held rule covers a whole dimension, and each word is covered by a different subset of the rules."""
    random = Random(1)
    words = [f"w{number}" for number in range(60)]

    def sample_words() -> list[str]:
        return random.sample(words, 30)

    held = [
        PolicyRule(
            verbs=sample_words(), apiGroups=sample_words(), resources=sample_words(), resourceNames=sample_words()
        )
        for _ in range(400)
    ]
    with pytest.raises(policy_rules.TooComplex):
        policy_rules.find_uncovered_rules(
            held, [PolicyRule(verbs=words, apiGroups=words, resources=words, resourceNames=words)]
        )


@pytest.mark.parametrize("count", [2, 200, 20_000])
def test_rule_with_repeated_words_is_compared_without_expansion(count: int) -> None:
    """The product of the repetitions is a length that no memory has."""
    requested = PolicyRule(
        verbs=["d"] * count, apiGroups=["a"] * count, resources=["b"] * count, resourceNames=["c"] * count
    )
    uncovered = policy_rules.find_uncovered_rules([rule("get", "pods")], [requested])
    assert uncovered.is_complete is (count == 2)
    assert sum(len(part.verbs or ()) for part in uncovered.rules) == (16 if count == 2 else 0)


def test_comparison_of_rules_leaves_no_garbage() -> None:
    """Cycles of a large comparison would stay in memory until the cycle collector looks at old objects."""
    large = [PolicyRule(verbs=["get"], apiGroups=[""], resources=[f"{at}-{n}" for n in range(100)]) for at in range(20)]
    policy_rules.find_uncovered_rules(large, large)
    gc.collect()
    gc.disable()
    try:
        assert not policy_rules.find_uncovered_rules(large, large)
        assert policy_rules.find_uncovered_rules(large[:5], large)
        assert gc.collect() == 0
    finally:
        gc.enable()
