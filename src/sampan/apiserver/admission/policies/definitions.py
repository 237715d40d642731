"""The admission policies of a cluster with their bindings, compiled from the objects in the watch cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sampan.api.types.admissionregistration_v1 import MatchResources
from sampan.apiserver.admission.framework.contract import AdmissionAttributes
from sampan.apiserver.admission.framework.expressions import WORKER
from sampan.apiserver.admission.framework.predicates import (
    AdmissionSelectors,
    find_matching_version,
    is_exempt,
    matches_rule,
)
from sampan.apiserver.registry.store import Store
from sampan.machinery.cel.errors import CelError

if TYPE_CHECKING:
    from sampan.api.resources.resource import Resource
    from sampan.api.types.admissionregistration_v1 import NamedRuleWithOperations
    from sampan.apiserver.admission.framework.static_manifests import StaticManifests
    from sampan.apiserver.registry.registry import Registry
    from sampan.machinery.cel import Program
    from sampan.storage.cacher import CacheItem

GROUP, VERSION = "admissionregistration.k8s.io", "v1"

Compiled = TypeVar("Compiled")


class ResourceMatcher:
    """The match constraints of a policy, or the match resources of a binding."""

    def __init__(self, resources: MatchResources) -> None:
        self._resources = resources
        self._selectors = AdmissionSelectors(resources.namespaceSelector, resources.objectSelector)

    async def match(self, attributes: AdmissionAttributes) -> Resource | None:
        """Return the version of the requested resource that matches, or None."""
        resources = self._resources
        if any(
            matches_rule(rule, attributes, attributes.resource) and _names_object(rule, attributes)
            for rule in resources.excludeResourceRules
        ):
            return None
        resource: Resource | None = attributes.resource
        if resources.resourceRules:
            rules = [rule for rule in resources.resourceRules if _names_object(rule, attributes)]
            resource = find_matching_version(rules, resources.matchPolicy, attributes)
        if resource is None or not await self._selectors.match(attributes):
            return None
        return resource


def _names_object(rule: NamedRuleWithOperations, attributes: AdmissionAttributes) -> bool:
    return not rule.resourceNames or attributes.name in rule.resourceNames


@dataclass(frozen=True, slots=True)
class CompiledBinding:
    binding: Any
    matcher: ResourceMatcher | None
    """None if the binding applies to all requests of its policy."""


@dataclass(frozen=True, slots=True)
class BoundPolicy(Generic[Compiled]):
    """A policy with its bindings, ordered by name."""

    policy: Any
    compiled: Compiled
    matcher: ResourceMatcher
    bindings: Sequence[CompiledBinding]


class PolicyDefinitions(Generic[Compiled]):
    """The policies of one kind that have bindings, ordered by name. Unchanged objects are compiled once."""

    def __init__(
        self, kind: str, compile_policy: Callable[[Any], Compiled], manifests: StaticManifests | None = None
    ) -> None:
        self._kind, self._compile_policy = kind, compile_policy
        self._manifests, self._generation = manifests, 0
        self._static_policies: list[BoundPolicy[Compiled]] = []
        self._policy_items: Sequence[CacheItem] = ()
        self._binding_items: Sequence[CacheItem] = ()
        self._compiled: dict[str, tuple[CacheItem, Compiled, ResourceMatcher]] = {}
        self._policies: list[BoundPolicy[Compiled]] = []
        self._lock = asyncio.Lock()

    @property
    def has_manifests(self) -> bool:
        return self._manifests is not None

    async def policies(self, attributes: AdmissionAttributes) -> Sequence[BoundPolicy[Compiled]]:
        """Return the policies that may apply to a request. Those in manifests come first, and apply to webhook
        configurations and policies too."""
        if self._manifests is None:
            return await self._stored_policies(attributes.registry)
        if self._generation != self._manifests.generation:
            await self._compile_manifests(self._manifests)
        if is_exempt(attributes.resource):
            return self._static_policies
        return [*self._static_policies, *await self._stored_policies(attributes.registry)]

    async def _compile_manifests(self, manifests: StaticManifests) -> None:
        generation = manifests.generation
        by_policy = _group_bindings(manifests.objects(f"{self._kind}Binding"))
        self._static_policies = [
            BoundPolicy(
                policy,
                await WORKER.run(self._compile_policy, policy),
                ResourceMatcher(policy.spec.matchConstraints),
                by_policy[policy.metadata.name],
            )
            for policy in manifests.objects(self._kind)
            if policy.metadata.name in by_policy
        ]
        self._generation = generation

    async def _stored_policies(self, registry: Registry) -> Sequence[BoundPolicy[Compiled]]:
        policies = registry.open_store_of(GROUP, VERSION, self._kind)
        bindings = registry.open_store_of(GROUP, VERSION, f"{self._kind}Binding")
        for store in (policies, bindings):
            if not store.cacher.is_ready:
                await store.cacher.wait_ready()
        policy_items, binding_items = policies.cacher.peek_all(), bindings.cacher.peek_all()
        if not policy_items and not self._policy_items:
            return ()
        if not (_are_same(policy_items, self._policy_items) and _are_same(binding_items, self._binding_items)):
            async with self._lock:
                await self._rebuild(policies, bindings)
        return self._policies

    async def _rebuild(self, policies: Store, bindings: Store) -> None:
        """Compile the policies that have changed, and group the bindings by policy. The watch cache is read again,
        because another request may have compiled the same changes while this one waited for the lock."""
        policy_items, binding_items = policies.cacher.peek_all(), bindings.cacher.peek_all()
        if _are_same(policy_items, self._policy_items) and _are_same(binding_items, self._binding_items):
            return
        ordered = sorted(binding_items, key=lambda item: item.name)
        by_policy = _group_bindings(item.object(bindings.codec.decode) for item in ordered)
        compiled = {}
        bound = []
        for item in sorted(policy_items, key=lambda item: item.name):
            remaining_compiled, policy = self._compiled.get(item.name), item.object(policies.codec.decode)
            if remaining_compiled is None or remaining_compiled[0] is not item:
                result = await WORKER.run(self._compile_policy, policy)
                remaining_compiled = (item, result, ResourceMatcher(policy.spec.matchConstraints))
            compiled[item.name] = remaining_compiled
            if item.name in by_policy:
                bound.append(BoundPolicy(policy, remaining_compiled[1], remaining_compiled[2], by_policy[item.name]))
        self._policy_items, self._binding_items = policy_items, binding_items
        self._compiled, self._policies = compiled, bound


def _group_bindings(bindings: Iterable[Any]) -> dict[str, list[CompiledBinding]]:
    by_policy: dict[str, list[CompiledBinding]] = {}
    for binding in bindings:
        resources = binding.spec.matchResources
        matcher = ResourceMatcher(resources) if resources is not None else None
        by_policy.setdefault(binding.spec.policyName, []).append(CompiledBinding(binding, matcher))
    return by_policy


def _are_same(items: Sequence[CacheItem], others: Sequence[CacheItem]) -> bool:
    return len(items) == len(others) and all(item is other for item, other in zip(items, others, strict=True))


def compile_or_error(compile_expression: Callable[[], Program]) -> Program | CelError:
    """Return the program, or the error of an expression that was stored although it is invalid."""
    try:
        return compile_expression()
    except CelError as error:
        return error
