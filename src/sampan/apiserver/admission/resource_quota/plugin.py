"""The plugin, which charges the quotas that apply to a write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sampan.api.resource import Resource
from sampan.api.semantics.pod_resources import Amounts
from sampan.api.types.core_v1 import ResourceQuota
from sampan.apiserver.admission import lookup
from sampan.apiserver.admission.contract import AdmissionAttributes, Operation
from sampan.apiserver.admission.resource_quota.quota_charges import QuotaCharge, QuotaCharger, add_charges
from sampan.apiserver.admission.resource_quota.quota_requests import LimitedResource, QuotaRequest, read, uncovered
from sampan.apiserver.registry.store import Store
from sampan.machinery.quota import evaluator_of

Demands = list[tuple[ResourceQuota, Amounts]]


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
