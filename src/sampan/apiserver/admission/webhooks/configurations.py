"""The webhooks of a cluster, compiled from its webhook configurations: selectors, match conditions, order of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sampan.api.types.admissionregistration_v1 import MutatingWebhook, ValidatingWebhook
from sampan.apiserver.admission.framework.expressions import WORKER
from sampan.apiserver.admission.framework.predicates import AdmissionSelectors, is_exempt
from sampan.machinery.cel.errors import CelError

if TYPE_CHECKING:
    from sampan.apiserver.admission.framework.contract import AdmissionAttributes
    from sampan.apiserver.admission.framework.static_manifests import StaticManifests
    from sampan.apiserver.registry.registry import Registry
    from sampan.apiserver.registry.store import Store
    from sampan.machinery.cel import Program
    from sampan.storage.cacher import CacheItem

GROUP, VERSION = "admissionregistration.k8s.io", "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledWebhook:
    configuration: str
    """The name of the webhook configuration."""
    hook: MutatingWebhook | ValidatingWebhook
    identity: tuple[str, str, int]
    """The names of the configuration and of the webhook, and its number among those of the same name."""
    selectors: AdmissionSelectors
    conditions: Sequence[tuple[str, Program | CelError]]

    @property
    def name(self) -> str:
        return self.hook.name

    @property
    def timeout_s(self) -> float:
        return float(self.hook.timeoutSeconds or 10)

    @property
    def is_reinvoked(self) -> bool:
        """Whether the webhook is called again if the object changes after its call."""
        return isinstance(self.hook, MutatingWebhook) and self.hook.reinvocationPolicy == "IfNeeded"

    @property
    def ignores_failures(self) -> bool:
        return self.hook.failurePolicy == "Ignore"


class WebhookConfigurations:
    """The webhooks of all configurations of one kind, ordered by configuration name. Unchanged configurations are
    compiled once."""

    def __init__(self, kind: str, manifests: StaticManifests | None = None) -> None:
        self._kind, self._manifests, self._generation = kind, manifests, 0
        self._static_hooks: list[CompiledWebhook] = []
        self._compiled: dict[str, tuple[CacheItem, list[CompiledWebhook]]] = {}
        self._items: Sequence[CacheItem] = ()
        self._hooks: list[CompiledWebhook] = []
        self._lock = asyncio.Lock()

    @property
    def has_manifests(self) -> bool:
        return self._manifests is not None

    async def hooks(self, attributes: AdmissionAttributes) -> Sequence[CompiledWebhook]:
        """Return the webhooks that may apply to a request. Those in manifests come first, and apply to webhook
        configurations and policies too."""
        if self._manifests is None:
            return await self._stored_hooks(attributes.registry)
        if self._generation != self._manifests.generation:
            generation = self._manifests.generation
            configurations = self._manifests.objects(self._kind)
            self._static_hooks = [
                hook for configuration in configurations for hook in await WORKER.run(compile_webhooks, configuration)
            ]
            self._generation = generation
        if is_exempt(attributes.resource):
            return self._static_hooks
        return [*self._static_hooks, *await self._stored_hooks(attributes.registry)]

    async def _stored_hooks(self, registry: Registry) -> Sequence[CompiledWebhook]:
        store = registry.open_store_of(GROUP, VERSION, self._kind)
        if not store.cacher.is_ready:
            await store.cacher.wait_ready()
        items = store.cacher.peek_all()
        if not items and not self._items:
            return ()
        if _differ(items, self._items):
            async with self._lock:
                await self._compile(store)
        return self._hooks

    async def _compile(self, store: Store) -> None:
        """Compile the configurations that have changed. The watch cache is read again, because another request may have
        compiled the same changes while this one waited for the lock."""
        items = store.cacher.peek_all()
        if not _differ(items, self._items):
            return
        compiled: dict[str, tuple[CacheItem, list[CompiledWebhook]]] = {}
        for item in items:
            remaining_compiled = self._compiled.get(item.name)
            if remaining_compiled is None or remaining_compiled[0] is not item:
                remaining_compiled = (item, await WORKER.run(compile_webhooks, item.object(store.codec.decode)))
            compiled[item.name] = remaining_compiled
        self._compiled, self._items = compiled, items
        self._hooks = [hook for name in sorted(compiled) for hook in compiled[name][1]]


def _differ(items: Sequence[CacheItem], others: Sequence[CacheItem]) -> bool:
    return len(items) != len(others) or any(item is not other for item, other in zip(items, others, strict=True))


def compile_webhooks(configuration: Any) -> list[CompiledWebhook]:
    counts: dict[str, int] = {}
    compiled = []
    name = configuration.metadata.name
    for hook in configuration.webhooks:
        number = counts[hook.name] = counts.get(hook.name, -1) + 1
        compiled.append(
            CompiledWebhook(
                configuration=name,
                hook=hook,
                identity=(name, hook.name, number),
                selectors=AdmissionSelectors(hook.namespaceSelector, hook.objectSelector),
                conditions=[(condition.name, _program(condition.expression)) for condition in hook.matchConditions],
            )
        )
    return compiled


def _program(text: str) -> Program | CelError:
    """Return the program, or the error of an expression that was stored although it is invalid."""
    from sampan.machinery.cel.admission import compile_condition, match_condition_environment

    try:
        return compile_condition(match_condition_environment(), text)
    except CelError as error:
        return error
