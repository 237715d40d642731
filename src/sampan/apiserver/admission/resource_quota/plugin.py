"""The plug-in, which charges the quotas that apply to a write: the usage that the write adds, and the resources that
can only be consumed if a quota covers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from sampan.api.quantity import Quantity
from sampan.api.resource import Resource
from sampan.api.semantics.pod_resources import Amounts
from sampan.api.types.core_v1 import ResourceQuota, ScopedResourceSelectorRequirement
from sampan.apiserver.admission import lookup
from sampan.apiserver.admission.configuration import ConfigurationError
from sampan.apiserver.admission.contract import AdmissionAttributes, Operation
from sampan.apiserver.admission.resource_quota.quota_charges import QuotaCharge, QuotaCharger, add_charges
from sampan.apiserver.registry.store import Store
from sampan.machinery.quota import Evaluator, evaluator_of, is_in_scope, terms_of

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
    def configured(cls, config: Mapping[str, Any]) -> ResourceQuotaAdmission:
        return cls(read(config))

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        evaluator = self._evaluator(resource.group, resource.plural) if resource.namespaced else None
        return evaluator is not None and (operation, subresource) in evaluator.writes

    async def validate(self, attributes: AdmissionAttributes) -> None:
        store = attributes.registry.open_store_of("", "v1", "ResourceQuota")
        quotas: list[ResourceQuota] = await lookup.in_namespace(store, attributes.namespace)
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
        if limited and (lacking := uncovered(limited, write, quotas)):
            raise attributes.forbidden(lacking)
        concerned = [quota for quota in quotas if write.concerns(quota)]
        for quota in concerned:
            if obstacle := write.obstacle(quota):
                raise attributes.forbidden(obstacle)
        if concerned and (negative := write.negative()):
            raise attributes.forbidden(f"quota usage is negative for resource(s): {','.join(negative)}")
        demands = [(quota, write.demand(quota)) for quota in concerned]
        return [(quota, demand) for quota, demand in demands if demand]

    async def _charge(self, attributes: AdmissionAttributes, store: Store, demands: Demands) -> None:
        """Charge the quotas, those that appear to be exhausted first, so that others need not be released again."""
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
    evaluator: Evaluator
    obj: Any
    old: Any
    """The object before the write; None for a create."""
    now: float

    def concerns(self, quota: ResourceQuota) -> bool:
        evaluator = self.evaluator
        return bool(evaluator.names_in(quota.status.hard)) and is_in_scope(quota, self.obj, evaluator.is_in)

    def obstacle(self, quota: ResourceQuota) -> str:
        """Return why a quota that applies to the write cannot be charged; "" if it can."""
        names = self.evaluator.names_in(quota.status.hard)
        if lacking := self.evaluator.missing(self.obj, names):
            return f"failed quota: {quota.metadata.name}: {lacking}"
        if not names <= quota.status.used.keys():
            return f"status unknown for quota: {quota.metadata.name}, resources: {','.join(sorted(names))}"
        return ""

    def negative(self) -> list[str]:
        """Return the resources whose usage by the object is negative."""
        return sorted(name for name, amount in self.usage().items() if amount.sign < 0)

    def usage(self) -> Amounts:
        return self.evaluator.usage(self.obj, self.now)

    def demand(self, quota: ResourceQuota) -> Amounts:
        """Return what the quota must be charged; only the increase if it was already charged for the old object."""
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


class _File(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: str
    kind: str
    limitedResources: tuple[LimitedResource, ...] = ()


def read(config: Mapping[str, Any]) -> tuple[LimitedResource, ...]:
    """Return the limited resources. Raise ConfigurationError if the configuration is invalid."""
    try:
        configuration = msgspec.convert(config, _File)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"ResourceQuota: {error}") from None
    if configuration.kind != _KIND or not configuration.apiVersion.startswith(_GROUP):
        raise ConfigurationError(f"ResourceQuota: want kind {_KIND} of apiVersion {_GROUP}v1")
    return configuration.limitedResources


def uncovered(limited: Sequence[LimitedResource], write: QuotaRequest, quotas: Sequence[ResourceQuota]) -> str:
    """Return why the write needs a quota that does not exist; "" if it does not."""
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
