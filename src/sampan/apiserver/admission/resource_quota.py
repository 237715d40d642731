"""ResourceQuota: keeps the total resource usage of a namespace within its quotas.

The plugin computes the usage that a write adds to each quota, and rejects the consumption of resources that need a
quota to cover them. A charge is a compare-and-swap on the status of the quota, so it counts as soon as it is written,
for every server. Charges that wait for the same quota are written together by the first of them. Usage is only released
here if a rejected write had been charged: the resource quota controller recomputes it. The counterpart is
`k8s.io/apiserver/pkg/admission/plugin/resourcequota`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from sampan.api.resources.resource import Resource
from sampan.api.semantics.pod_resources import Amounts
from sampan.api.types.core_v1 import ResourceQuota, ScopedResourceSelectorRequirement
from sampan.api.values.quantity import Quantity, parse
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.registry.store import Store
from sampan.apiserver.registry.stored_object import StoredObject
from sampan.machinery.quota import QuotaEvaluator, evaluator_of, is_in_scope, terms_of
from sampan.storage.backend import StoreConflict

Demands = list[tuple[ResourceQuota, Amounts]]
_ZERO = Quantity()
_KIND, _GROUP = "ResourceQuotaConfiguration", "apiserver.config.k8s.io/"


class ResourceQuotaAdmission:
    name = "ResourceQuota"

    def __init__(self, limited: Sequence[LimitedResource] = ()) -> None:
        """`limited` are the resources that can only be consumed if a quota covers them."""
        self._limited: dict[tuple[str, str], list[LimitedResource]] = {}
        for resource in limited:
            self._limited.setdefault((resource.apiGroup, resource.resource), []).append(resource)
        self._charger = QuotaCharger()
        self._evaluator = cache(evaluator_of)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ResourceQuotaAdmission:
        return cls(read(config))

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        evaluator = self._evaluator(resource.group, resource.plural) if resource.namespaced else None
        return evaluator is not None and (operation, subresource) in evaluator.writes

    async def validate(self, attributes: AdmissionAttributes) -> None:
        store = attributes.registry.open_store_of("", "v1", "ResourceQuota")
        quotas: list[ResourceQuota] = await lookup.list_in_namespace(store, attributes.namespace)
        if quotas or self._limited:
            await self._charge(attributes, store, self._demands(attributes, quotas))

    def _demands(self, attributes: AdmissionAttributes, quotas: list[ResourceQuota]) -> Demands:
        resource, obj, old = attributes.resource, attributes.obj, attributes.old
        evaluator = self._evaluator(resource.group, resource.plural)
        assert evaluator is not None, "handles() has selected resources with an evaluator"
        if old is not None and not attributes.subresource and not evaluator.changes_use(old, obj):
            return []
        write = QuotaRequest(evaluator=evaluator, obj=obj, old=old, now=attributes.registry.clock.now())
        limited = self._limited.get((resource.group, resource.plural))
        if limited and (lacking := find_missing_quota(limited, write, quotas)):
            raise attributes.forbidden(lacking)
        concerned = [quota for quota in quotas if write.concerns(quota)]
        for quota in concerned:
            if obstacle := write.find_charge_error(quota):
                raise attributes.forbidden(obstacle)
        if concerned and (negative := write.list_negative_usage()):
            raise attributes.forbidden(f"quota usage is negative for resource(s): {','.join(negative)}")
        demands = [(quota, write.demand(quota)) for quota in concerned]
        return [(quota, demand) for quota, demand in demands if demand]

    async def _charge(self, attributes: AdmissionAttributes, store: Store, demands: Demands) -> None:
        """Charge the quotas. Those that seem to be exhausted come first, because a rejection by a later quota requires
        releasing the charges made before it."""
        is_limited = attributes.subresource != "status"
        rows = [(quota, QuotaCharge(amounts=amounts, is_limited=is_limited)) for quota, amounts in demands]
        rows.sort(key=lambda row: not add_charges(row[0], [row[1]]).refusals)
        if attributes.dry_run:
            for quota, charge in rows:
                for refusal in add_charges(quota, [charge]).refusals.values():
                    raise attributes.forbidden(refusal)
            return
        for index, (quota, charge) in enumerate(rows):
            refusal = await self._charger.charge(store, attributes.namespace, quota.metadata.name, charge)
            if refusal:
                await self._give_back(attributes, store, rows[:index])
                raise attributes.forbidden(refusal)

    async def _give_back(
        self, attributes: AdmissionAttributes, store: Store, rows: list[tuple[ResourceQuota, QuotaCharge]]
    ) -> None:
        for quota, charge in rows:
            back = QuotaCharge(amounts={name: -amount for name, amount in charge.amounts.items()}, is_limited=False)
            await self._charger.charge(store, attributes.namespace, quota.metadata.name, back)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRequest:
    evaluator: QuotaEvaluator
    obj: Any
    old: Any
    """The object before the write; None for a create."""
    now: float

    def concerns(self, quota: ResourceQuota) -> bool:
        evaluator = self.evaluator
        return bool(evaluator.names_in(quota.status.hard)) and is_in_scope(quota, self.obj, evaluator.is_in)

    def find_charge_error(self, quota: ResourceQuota) -> str:
        """Return why a quota that applies to the write cannot be charged; "" if it can."""
        names = self.evaluator.names_in(quota.status.hard)
        if lacking := self.evaluator.missing(self.obj, names):
            return f"failed quota: {quota.metadata.name}: {lacking}"
        if not names <= quota.status.used.keys():
            return f"status unknown for quota: {quota.metadata.name}, resources: {','.join(sorted(names))}"
        return ""

    def list_negative_usage(self) -> list[str]:
        """Return the resources whose usage by the object is negative."""
        return sorted(name for name, amount in self.usage().items() if amount.sign < 0)

    def usage(self) -> Amounts:
        return self.evaluator.usage(self.obj, self.now)

    def demand(self, quota: ResourceQuota) -> Amounts:
        """Return the amounts to charge to the quota; only the increase if the quota was already charged for the old
        object."""
        used = self.usage()
        if self.old is not None and is_in_scope(quota, self.old, self.evaluator.is_in):
            before = self.evaluator.usage(self.old, self.now)
            used = {name: amount - before.get(name, _ZERO) for name, amount in used.items()}
        return {name: amount for name, amount in used.items() if amount.sign > 0 and name in quota.status.hard}


class ScopeSelector(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    scopeName: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    @property
    def term(self) -> ScopedResourceSelectorRequirement:
        return ScopedResourceSelectorRequirement(
            scopeName=self.scopeName, operator=self.operator, values=list(self.values)
        )

    def __str__(self) -> str:
        return f"{{{self.scopeName} {self.operator} [{' '.join(self.values)}]}}"


class LimitedResource(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    resource: str
    apiGroup: str = ""
    matchContains: tuple[str, ...] = ()
    matchScopes: tuple[ScopeSelector, ...] = ()


class _QuotaConfiguration(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: str
    kind: str
    limitedResources: tuple[LimitedResource, ...] = ()


def read(config: Mapping[str, Any]) -> tuple[LimitedResource, ...]:
    """Return the limited resources. Raise ConfigurationError if the configuration is invalid."""
    try:
        configuration = msgspec.convert(config, _QuotaConfiguration)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"ResourceQuota: {error}") from None
    if configuration.kind != _KIND or not configuration.apiVersion.startswith(_GROUP):
        raise ConfigurationError(f"ResourceQuota: want kind {_KIND} of apiVersion {_GROUP}v1")
    return configuration.limitedResources


def find_missing_quota(limited: Sequence[LimitedResource], write: QuotaRequest, quotas: Sequence[ResourceQuota]) -> str:
    """Return the error for a write that needs a quota which does not exist; "" if all needed quotas exist."""
    covered = {name for quota in quotas if write.concerns(quota) for name in quota.status.hard}
    if lacking := sorted(_names(limited, write) - covered):
        return f"insufficient quota to consume: {','.join(lacking)}"
    if open_scopes := [scope for scope in _scopes(limited, write) if not _is_covered(scope, write, quotas)]:
        return f"insufficient quota to match these scopes: [{' '.join(map(str, open_scopes))}]"
    return ""


def _names(limited: Sequence[LimitedResource], write: QuotaRequest) -> set[str]:
    parts = [part for resource in limited for part in resource.matchContains]
    return {name for name in write.usage() if any(part in name for part in parts)}


def _scopes(limited: Sequence[LimitedResource], write: QuotaRequest) -> Iterator[ScopeSelector]:
    for resource in limited:
        yield from (scope for scope in resource.matchScopes if write.evaluator.is_in(scope.term, write.obj))


def _is_covered(scope: ScopeSelector, write: QuotaRequest, quotas: Sequence[ResourceQuota]) -> bool:
    """Whether a quota has the scope and the object matches it."""
    is_in = write.evaluator.is_in
    return any(
        term.scopeName == scope.scopeName and is_in(term, write.obj) for quota in quotas for term in terms_of(quota)
    )


@dataclass(slots=True, kw_only=True)
class QuotaCharge:
    amounts: Amounts
    """The amounts to add; negative ones are released."""
    is_limited: bool = True
    """Whether the charge is rejected if it does not fit; otherwise it is only recorded."""


@dataclass(slots=True)
class QuotaUsage:
    """The usage of a quota after some charges, and why some of them do not fit, by position."""

    used: dict[str, str]
    refusals: dict[int, str] = field(default_factory=dict)


def add_charges(quota: ResourceQuota, charges: Sequence[QuotaCharge]) -> QuotaUsage:
    usage = QuotaUsage(dict(quota.status.used))
    for index, charge in enumerate(charges):
        amounts = {name: amount for name, amount in charge.amounts.items() if name in quota.status.hard}
        exceeded = _find_exceeded(quota, usage.used, amounts) if charge.is_limited else []
        if exceeded:
            usage.refusals[index] = _describe_exceeded(quota, usage.used, amounts, exceeded)
        else:
            usage.used |= {name: str(_add_usage(usage.used, name, amount)) for name, amount in amounts.items()}
    return usage


def _add_usage(used: dict[str, str], name: str, amount: Quantity) -> Quantity:
    total = parse(used.get(name, "0")) + amount
    return total if total.sign >= 0 else _ZERO


def _find_exceeded(quota: ResourceQuota, used: dict[str, str], requested: Amounts) -> list[str]:
    hard = quota.status.hard
    return sorted(name for name, amount in requested.items() if _add_usage(used, name, amount) > parse(hard[name]))


def _describe_exceeded(quota: ResourceQuota, used: dict[str, str], requested: Amounts, names: Iterable[str]) -> str:
    columns = (("requested", requested), ("used", used), ("limited", quota.status.hard))
    texts = [f"{word}: {','.join(f'{name}={amounts[name]}' for name in names)}" for word, amounts in columns]
    return f"exceeded quota: {quota.metadata.name}, {', '.join(texts)}"


@dataclass(slots=True, eq=False)
class _QueuedCharge:
    charge: QuotaCharge
    is_done: bool = False
    refusal: str = ""


@dataclass(slots=True)
class _ChargeQueue:
    """The charges that wait for one quota."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[_QueuedCharge] = field(default_factory=list)
    users: int = 0


class QuotaCharger:
    def __init__(self) -> None:
        self._lines: dict[str, _ChargeQueue] = {}

    async def charge(self, store: Store, namespace: str, name: str, charge: QuotaCharge) -> str:
        """Charge the quota. Return why the charge does not fit, or "". A quota that was deleted accepts everything."""
        mine = _QueuedCharge(charge)
        async with self._charge_queue(store.key(namespace, name)) as line:
            line.waiting.append(mine)
            async with line.lock:
                if not mine.is_done:
                    await self._write_all(store, (namespace, name), line, mine)
        return mine.refusal

    @asynccontextmanager
    async def _charge_queue(self, key: str) -> AsyncIterator[_ChargeQueue]:
        line = self._lines.setdefault(key, _ChargeQueue())
        line.users += 1
        try:
            yield line
        finally:
            line.users -= 1
            if not line.users:
                del self._lines[key]

    async def _write_all(self, store: Store, quota: tuple[str, str], line: _ChargeQueue, mine: _QueuedCharge) -> None:
        """Write all waiting charges. If this fails or the request is cancelled, the other requests retry by themselves.
        A charge may then have been written although its request failed: usage may be too high, but never too low."""
        batch, line.waiting = line.waiting, []
        try:
            usage = await _write_charges(store, quota, [waiter.charge for waiter in batch])
        except BaseException:
            line.waiting = [waiter for waiter in batch if waiter is not mine] + line.waiting
            raise
        for index, waiter in enumerate(batch):
            waiter.is_done, waiter.refusal = True, usage.refusals.get(index, "")


async def _write_charges(store: Store, quota: tuple[str, str], charges: Sequence[QuotaCharge]) -> QuotaUsage:
    """Return the usage that was written. The cached quota is sufficient for a write, which fails if it is stale, but a
    rejection requires the current one."""
    stored_objects, key = store.stored_objects, store.key(*quota)
    stored = stored_objects.peek(*quota) or await stored_objects.read(key)
    while stored is not None:
        usage = add_charges(stored.obj, charges)
        if usage.refusals and not stored.is_current:
            stored = await stored_objects.read(key)
            continue
        if usage.used == stored.obj.status.used:
            return usage
        try:
            await _put(store, stored, usage.used)
        except StoreConflict as conflict:
            stored = stored_objects.from_entry(conflict.current)
        else:
            return usage
    return QuotaUsage({})


async def _put(store: Store, stored: StoredObject, used: dict[str, str]) -> None:
    quota = stored.copy()
    quota.status.used = used
    quota.metadata.resourceVersion = ""
    await store.backend.put(stored.item.key, store.codec.encode(quota), expected=stored.revision)
