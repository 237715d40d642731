"""device-taint-eviction-controller, which evicts pods from devices with NoExecute taints that they do not tolerate.

Taints come from ResourceSlices and from DeviceTaintRules, whose status reports the progress.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from sampan.api.semantics.conditions import TRUE
from sampan.api.semantics.owners import is_controlled_by
from sampan.api.semantics.resource_claims import is_reserved_for
from sampan.api.semantics.taints import NO_EXECUTE
from sampan.api.types import resource_v1, resource_v1beta2
from sampan.api.types.core_v1 import ObjectReference, Pod
from sampan.api.types.resource_v1 import Device, DeviceRequestAllocationResult, ResourceClaim, ResourceSlice
from sampan.api.values import times
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.devices import pod_claims
from sampan.controllers.devices.taint_rules import (
    NO_EFFECT,
    STATUS_PERIOD_S,
    AnyTaintRule,
    Eviction,
    RuleCounts,
    TrackedTaint,
    by_selector,
    compute_condition,
    compute_eviction,
    find_report,
    is_same_report,
    join_evictions,
    matches,
    selectors_of,
    taint_of,
    taints_of,
)
from sampan.controllers.nodes.pods import DISRUPTION_TARGET, pod_condition_patch
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, PatchType, WriteParameters, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.control_loop.own_writes import OwnWrites
from sampan.machinery.events import NORMAL, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of


def has_no_execute_taint(slice: ResourceSlice) -> bool:
    return any(taint.effect == NO_EXECUTE for device in slice.spec.devices for taint in device.taints)


def device_of(slices: Sequence[ResourceSlice], name: str) -> Device | None:
    """Return a device of a pool. Only the slices of the latest pool generation count."""
    latest = max((slice.spec.pool.generation for slice in slices), default=0)
    current = [slice for slice in slices if slice.spec.pool.generation == latest]
    return next((device for slice in current for device in slice.spec.devices if device.name == name), None)


EVICTION = "DeviceTaintManagerEviction"


class RuleKey(NamedTuple):
    """The key of a DeviceTaintRule whose status is reported."""

    rule: str


class _PlannedEviction(NamedTuple):
    uid: str
    is_done: bool


def by_pool(obj: ResourceClaim | ResourceSlice) -> Iterable[Hashable]:
    """Return the pools, as (driver, name), of the devices allocated to a claim, or the pool of a slice."""
    if isinstance(obj, ResourceSlice):
        return ((obj.spec.driver, obj.spec.pool.name),)
    if obj.status.allocation is None:
        return ()
    return {(device.driver, device.pool) for device in obj.status.allocation.devices.results}


def _pod_key(pod: Pod) -> Iterable[Hashable]:
    return (key_of(pod),) if pod.spec.resourceClaims and pod.spec.nodeName else ()


def _consumer_pod_keys(claim: ResourceClaim) -> Iterable[NamespacedName]:
    pods = [consumer for consumer in claim.status.reservedFor if consumer.resource == "pods" and not consumer.apiGroup]
    return [NamespacedName(claim.metadata.namespace, consumer.name) for consumer in pods]


def _matching_devices(rule: AnyTaintRule, claim: ResourceClaim) -> Iterable[DeviceRequestAllocationResult]:
    if claim.status.allocation is None:
        return ()
    devices = claim.status.allocation.devices.results
    return (device for device in devices if matches(rule, device.driver, device.pool, device.device))


class DeviceTaintEvictionController:
    name = "device-taint-eviction-controller"

    def __init__(
        self,
        *,
        client: Client,
        informers: InformerFactory,
        events: EventRecorder,
        clock: Clock,
        config: ControllerConfig,
    ) -> None:
        self._client, self._events, self._clock = client.for_kind(Pod), events, clock
        self._pods, self._claims = informers.for_kind(Pod).lister, informers.for_kind(ResourceClaim).lister
        self._slices = informers.for_kind(ResourceSlice).lister
        self._claims.add_index(by_pool)
        self._slices.add_index(by_pool)
        self._planned: dict[NamespacedName, _PlannedEviction] = {}
        self._add: Callable[[Hashable], None] = lambda key: None
        gates = config.feature_gates
        version = resource_v1 if gates.level >= 37 else resource_v1beta2
        kind: type[AnyTaintRule] = version.DeviceTaintRule
        self._has_rules = gates.is_enabled("DRADeviceTaintRules")
        self._evicted_pods: Counter[str] = Counter()
        """The number of pods evicted since the start, by the UID of the rule."""
        self._report_times: dict[str, float] = {}
        """When the status of a rule with evicted pods is reported next, by UID."""
        self._reported_generations: dict[str, int] = {}
        """The generation of each rule whose condition was last written or found, by UID. Only a new generation and
        evictions lead to a report: others may write the status, too."""
        self.watches: tuple[Watch, ...] = (
            Watch(resource_of(Pod), _pod_key),
            Watch(resource_of(ResourceClaim), _consumer_pod_keys),
            Watch(resource_of(ResourceSlice), self._slice_user_keys),
        )
        if self._has_rules:
            self._rule_client, self._rules = client.for_kind(kind), informers.for_kind(kind).lister
            self._rule_writes = OwnWrites()
            self._rule_writes.follow(informers.for_kind(kind))
            self._rules.add_index(by_selector)
            informers.for_kind(kind).subscribe(self._forget_rule)
            self.watches = (*self.watches, Watch(resource_of(kind), self._rule_keys))

    def feed(self, add: Callable[[Hashable], None]) -> None:
        self._add = add

    def _forget_rule(self, old: AnyTaintRule | None, new: AnyTaintRule | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._evicted_pods.pop(old.metadata.uid, None)
            self._report_times.pop(old.metadata.uid, None)
            self._reported_generations.pop(old.metadata.uid, None)

    def _rule_keys(self, rule: AnyTaintRule) -> Iterable[Hashable]:
        """Return the rule, whose status is reported before pods are evicted, and the consumers of its devices."""
        if self._reported_generations.get(rule.metadata.uid) != rule.metadata.generation:
            yield RuleKey(rule.metadata.name)
        if rule.spec.taint.effect == NO_EXECUTE:
            yield from self._consumers_of(rule)

    def _consumers_of(self, rule: AnyTaintRule) -> set[NamespacedName]:
        return {key for claim in self._claims_of_rule(rule) for key in _consumer_pod_keys(claim)}

    def _claims_of_rule(self, rule: AnyTaintRule) -> Iterable[ResourceClaim]:
        selector = rule.spec.deviceSelector
        if selector is None:
            return ()
        is_one_pool = selector.driver is not None and selector.pool is not None
        claims = self._claims.find(by_pool, (selector.driver, selector.pool)) if is_one_pool else self._claims.list()
        return [claim for claim in claims if any(_matching_devices(rule, claim))]

    def _slice_user_keys(self, slice: ResourceSlice) -> Iterable[Hashable]:
        if not has_no_execute_taint(slice):
            return ()
        claims = self._claims.find(by_pool, (slice.spec.driver, slice.spec.pool.name))
        return [key for claim in claims for key in _consumer_pod_keys(claim)]

    async def reconcile(self, key: NamespacedName | RuleKey) -> float | None:
        if isinstance(key, RuleKey):
            return await self._report(key.rule)
        pod, planned = self._pods.get_by_key(key), self._planned.get(key)
        if pod is None:
            self._planned.pop(key, None)
            return None
        if planned is not None and planned.uid == pod.metadata.uid and planned.is_done:
            return None
        eviction, now = self._compute_pod_eviction(pod), self._clock.now()
        if eviction is None:
            if self._planned.pop(key, None) is not None:
                self._record_event(pod, "Cancelling deletion")
            return None
        is_due = eviction.at <= now
        is_done = is_due and await self._evict(key, pod.metadata.uid, eviction)
        self._planned[key] = _PlannedEviction(pod.metadata.uid, is_done=is_done)
        return None if is_due else eviction.at - now

    def _compute_pod_eviction(self, pod: Pod, simulated: AnyTaintRule | None = None) -> Eviction | None:
        """Return when the pod must be evicted, as if the effect of the simulated rule was NoExecute."""
        if not pod.spec.nodeName:
            return None
        return join_evictions(self._compute_claim_eviction(claim, simulated) for claim in self._claims_of(pod))

    def _claims_of(self, pod: Pod) -> Iterable[ResourceClaim]:
        for pod_claim in pod.spec.resourceClaims:
            name = pod_claims.claim_name(pod, pod_claim)
            claim = self._claims.get(name, pod.metadata.namespace) if name else None
            if claim is None or not is_reserved_for(claim, pod):
                continue
            if pod_claim.resourceClaimTemplateName is None or is_controlled_by(claim, pod):
                yield claim

    def _compute_claim_eviction(self, claim: ResourceClaim, simulated: AnyTaintRule | None) -> Eviction | None:
        if claim.status.allocation is None:
            return None
        return join_evictions(
            compute_eviction(self._taints_of(allocated, simulated), allocated)
            for allocated in claim.status.allocation.devices.results
        )

    def _taints_of(
        self, allocated: DeviceRequestAllocationResult, simulated: AnyTaintRule | None
    ) -> Iterable[TrackedTaint]:
        names = (allocated.driver, allocated.pool, allocated.device)
        device = device_of(self._slices.find(by_pool, names[:2]), allocated.device)
        if device is not None:
            yield from taints_of(device)
        if self._has_rules:
            for selector in selectors_of(*names):
                yield from map(taint_of, self._rules.find(by_selector, selector))
        if simulated is not None and matches(simulated, *names):
            yield taint_of(simulated)._replace(effect=NO_EXECUTE)

    # -- rules -------------------------------------------------------------------------------------------------------

    async def _report(self, name: str) -> float | None:
        """Write the condition of a rule; return the seconds until it may be written again."""
        rule, now = self._rules.get(name), self._clock.now()
        if rule is None or self._rule_writes.is_stale(rule):
            return None
        report = find_report(rule)
        if report is not None:
            reported_at = times.parse_time(report.lastTransitionTime) if report.lastTransitionTime else 0.0
            next_report_at = max(reported_at + STATUS_PERIOD_S, self._report_times.get(rule.metadata.uid, 0.0))
            if next_report_at > now:
                return next_report_at - now
            if rule.spec.taint.effect == NO_EFFECT:
                return None
        condition = compute_condition(rule, self._count(rule), self._evicted_pods.get(rule.metadata.uid, 0))
        if not is_same_report(report, condition):
            condition.lastTransitionTime = times.format_time(now)
            await self._write_report(rule, msgspec.to_builtins(condition))
        self._reported_generations[rule.metadata.uid] = rule.metadata.generation
        return None

    def _count(self, rule: AnyTaintRule) -> RuleCounts:
        effect = rule.spec.taint.effect
        if effect not in (NO_EXECUTE, NO_EFFECT):
            return RuleCounts()
        simulated = rule if effect == NO_EFFECT else None
        namespaces = []
        for key in self._consumers_of(rule):
            pod = self._pods.get_by_key(key)
            if pod is None or pod.metadata.deletionTimestamp is not None:
                continue
            eviction = self._compute_pod_eviction(pod, simulated)
            if eviction is not None and rule.metadata.uid in eviction.rules:
                namespaces.append(pod.metadata.namespace)
        counts = RuleCounts(pods=len(namespaces), namespaces=len(set(namespaces)))
        if simulated is None:
            return counts
        allocated = sum(1 for claim in self._claims_of_rule(rule) for _ in _matching_devices(rule, claim))
        return counts._replace(published=self._count_published_devices(rule), allocated=allocated)

    def _count_published_devices(self, rule: AnyTaintRule) -> int:
        generations: Counter[Hashable] = Counter()
        slices = self._slices.list()
        for slice in slices:
            (pool,) = by_pool(slice)
            generations[pool] = max(generations[pool], slice.spec.pool.generation)
        return sum(
            matches(rule, slice.spec.driver, slice.spec.pool.name, device.name)
            for slice in slices
            if slice.spec.pool.generation == generations[slice.spec.driver, slice.spec.pool.name]
            for device in slice.spec.devices
        )

    async def _write_report(self, rule: AnyTaintRule, condition: object) -> None:
        meta = rule.metadata
        patch = {
            "apiVersion": rule.apiVersion,
            "kind": rule.kind,
            "metadata": {"name": meta.name, "uid": meta.uid},
            "status": {"conditions": [condition]},
        }
        options = WriteParameters(field_manager=self.name, force=True)
        try:
            written = await self._rule_client.patch(
                meta.name, patch, type=PatchType.APPLY, subresource="status", options=options
            )
        except (errors.NotFound, errors.Conflict):
            return  # Another rule may have the name; its watch event triggers another sync.
        self._rule_writes.record_write(written)

    def _note_evicted(self, eviction: Eviction) -> None:
        """Have the rules report the eviction once the caches show it."""
        for rule in self._rules.list() if eviction.rules else ():
            uid = rule.metadata.uid
            if uid in eviction.rules:
                self._evicted_pods[uid] += 1
                self._report_times[uid] = self._clock.now() + STATUS_PERIOD_S
                self._add(RuleKey(rule.metadata.name))

    # -- eviction ----------------------------------------------------------------------------------------------------

    async def _evict(self, key: NamespacedName, uid: str, eviction: Eviction) -> bool:
        try:
            pod = await self._client.get(key.name, key.namespace)
            if pod.metadata.uid != uid or pod.metadata.deletionTimestamp is not None:
                return True
            self._record_event(pod, "Marking for deletion")
            patch = pod_condition_patch(
                pod,
                DISRUPTION_TARGET,
                self._clock.now(),
                status=TRUE,
                reason="DeletionByDeviceTaintManager",
                message="Device Taint manager: deleting due to NoExecute taint",
            )
            if patch is not None:
                await self._client.patch(key.name, patch, key.namespace, subresource="status")
            await self._client.delete(key.name, key.namespace, options=DeleteParameters(uid=uid))
            self._note_evicted(eviction)
        except errors.NotFound:
            return True
        return True

    def _record_event(self, pod: Pod, message: str) -> None:
        meta = pod.metadata
        reference = ObjectReference(apiVersion="v1", kind="Pod", name=meta.name, namespace=meta.namespace, uid=meta.uid)
        self._events.event(reference, NORMAL, EVICTION, message)
