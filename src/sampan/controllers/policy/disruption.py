"""disruption-controller, which maintains the status of PodDisruptionBudgets; it has one key per budget and one per pod
with a stale DisruptionTarget condition.

The expected number of pods is the sum of the scales of their controllers.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sampan.api.go_compat import gotext
from sampan.api.resources.resource import Resource
from sampan.api.selectors import label_selector
from sampan.api.selectors.label_grammar import SelectorError
from sampan.api.selectors.label_selector import is_selected
from sampan.api.semantics.owners import controller_of
from sampan.api.types.apps_v1 import Deployment, ReplicaSet, StatefulSet
from sampan.api.types.autoscaling_v1 import Scale
from sampan.api.types.core_v1 import Pod, ReplicationController
from sampan.api.types.meta_v1 import OwnerReference
from sampan.api.types.policy_v1 import PodDisruptionBudget
from sampan.api.values import times
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.policy import budgets
from sampan.controllers.policy.budgets import ExpectedPods
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.client.codecs import codec_of, path_of
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.client.transport import Request
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory, Lister, by_namespace
from sampan.machinery.object_key import NamespacedName, key_of

_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)
Discover = Callable[[], Awaitable[tuple[Sequence[Resource], str]]]
OwnerScale = tuple[str, int]
"""The UID of a controller and its scale."""


class ScaleError(Exception):
    """The scale cannot be determined; the message states the reason."""


@dataclass(frozen=True, slots=True)
class ExpectedScale:
    scale: int
    unmanaged: Sequence[str]
    """The names of pods without a controller."""


class ScaleReader:
    kinds = (ReplicationController, ReplicaSet, Deployment, StatefulSet)
    """The kinds whose scale is read from informer caches. For other kinds the scale subresource is requested."""

    def __init__(self, *, client: Client, informers: InformerFactory, discover: Discover) -> None:
        self._client, self._discover = client, discover
        self._sets = informers.for_kind(ReplicaSet).lister
        self._deployments = informers.for_kind(Deployment).lister
        self._others: dict[tuple[str, str], Lister[Any]] = {
            ("", "ReplicationController"): informers.for_kind(ReplicationController).lister,
            ("apps", "StatefulSet"): informers.for_kind(StatefulSet).lister,
        }

    async def total(self, pods: Iterable[Pod]) -> ExpectedScale:
        scales: dict[str, int] = {}
        unmanaged = []
        owners: set[str] = set()
        for pod in pods:
            ref = controller_of(pod)
            if ref is None:
                unmanaged.append(pod.metadata.name)
            elif ref.uid not in owners:
                owners.add(ref.uid)
                uid, scale = await self._scale(ref, pod)
                scales[uid] = scale
        return ExpectedScale(sum(scales.values()), unmanaged)

    async def _scale(self, ref: OwnerReference, pod: Pod) -> OwnerScale:
        namespace = pod.metadata.namespace
        scale = self._read_cached_scale(ref, namespace) or await self._fetch_scale(ref, namespace)
        if scale is None:
            raise ScaleError(f'found no controllers for pod "{pod.metadata.name}"')
        return scale

    def _read_cached_scale(self, ref: OwnerReference, namespace: str) -> OwnerScale | None:
        group = ref.apiVersion.rpartition("/")[0]
        if ref.kind == "ReplicaSet" and group in ("apps", "extensions"):
            return self._read_replica_set_scale(ref, namespace)
        lister = self._others.get((group, ref.kind))
        return _owner_scale(lister.get(ref.name, namespace), ref.uid) if lister is not None else None

    def _read_replica_set_scale(self, ref: OwnerReference, namespace: str) -> OwnerScale | None:
        """Return the scale of the ReplicaSet's Deployment, or its own if it has none."""
        owned = self._sets.get(ref.name, namespace)
        if owned is None or owned.metadata.uid != ref.uid:
            return None
        above = controller_of(owned)
        if above is None or above.kind != "Deployment":
            return _owner_scale(owned, ref.uid)
        return _owner_scale(self._deployments.get(above.name, namespace), above.uid)

    async def _fetch_scale(self, ref: OwnerReference, namespace: str) -> OwnerScale | None:
        resource = await self._resource_of(ref)
        path = path_of(resource, namespace, ref.name, "scale")
        try:
            response = await self._client.send(Request(method="GET", path=path))
        except errors.NotFound:
            if resource.subresource("scale") is None:
                raise ScaleError(f"{resource.qualified} does not implement the scale subresource") from None
            return None
        scale: Scale = response.object(_SCALE)
        return (ref.uid, scale.spec.replicas) if scale.metadata.uid == ref.uid else None

    async def _resource_of(self, ref: OwnerReference) -> Resource:
        served, _ = await self._discover()
        for resource in served:
            if (resource.api_version, resource.kind) == (ref.apiVersion, ref.kind):
                return resource
        raise ScaleError(f'no matches for kind "{ref.kind}" in version "{ref.apiVersion}"')


def _scale_codec() -> Any:
    return codec_of(Resource(group="autoscaling", version="v1", kind="Scale", plural="scales", singular="scale"))


_SCALE = _scale_codec()


def _owner_scale(obj: Any, uid: str) -> OwnerScale | None:
    if obj is None or obj.metadata.uid != uid:
        return None
    return uid, obj.spec.replicas if obj.spec.replicas is not None else 1


class PodKey(NamedTuple):
    """The key of a pod, as opposed to that of a budget."""

    pod: NamespacedName


class DisruptionController:
    name = "disruption-controller"

    def __init__(
        self, *, client: Client, informers: InformerFactory, scales: ScaleReader, events: EventRecorder, clock: Clock
    ) -> None:
        self._budgets, self._pods = client.for_kind(PodDisruptionBudget), client.for_kind(Pod)
        self._scales, self._events, self._clock = scales, events, clock
        self._known = informers.for_kind(PodDisruptionBudget).lister
        self._known_pods = informers.for_kind(Pod).lister
        self._known.add_index(by_namespace)
        self._known_pods.add_index(by_namespace)
        self.watches = (
            Watch(resource_of(PodDisruptionBudget), lambda budget: (key_of(budget),)),
            Watch(resource_of(Pod), self._affected_keys),
            *(Watch(resource_of(kind)) for kind in scales.kinds),
        )

    def _affected_keys(self, pod: Pod) -> Iterable[Hashable]:
        keys: list[Hashable] = [key_of(budget) for budget in self._find_budgets(pod)]
        if len(keys) > 1 or budgets.stale_in_s(pod, 0) is not None:
            keys.append(PodKey(key_of(pod)))
        return keys

    def _find_budgets(self, pod: Pod) -> Sequence[PodDisruptionBudget]:
        candidates = self._known.find(by_namespace, pod.metadata.namespace)
        return [budget for budget in candidates if is_selected(pod.metadata.labels, budget.spec.selector)]

    async def reconcile(self, key: Any) -> float | None:
        if isinstance(key, PodKey):
            return await self._sync_pod(key.pod)
        budget = self._known.get_by_key(key)
        return await self._try_sync(budget) if budget is not None else None

    # -- budgets -----------------------------------------------------------------------------------------------------

    async def _try_sync(self, budget: PodDisruptionBudget) -> float | None:
        try:
            return await self._sync(budget)
        except (errors.ApiError, ScaleError, SelectorError) as error:
            if isinstance(error, errors.Conflict):
                raise
            await self._fail(budget, str(error))
            return None

    async def _sync(self, budget: PodDisruptionBudget) -> float | None:
        pods = self._select_pods(budget)
        expected = await self._compute_expectation(budget, pods)
        now = self._clock.now()
        disrupted = budgets.find_disrupted_pods(budget, pods, now)
        for pod in disrupted.expired:
            namespace = budget.metadata.namespace
            text = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            self._events.event(pod, WARNING, "NotDeleted", text)
        current = budgets.count_healthy_pods(pods, disrupted.since, now)
        desired = budgets.compute_status(budget, expected, current, disrupted.since, times.format_time(now))
        if desired != budget.status:
            await self._write(budget, desired)
        return disrupted.again_s

    def _select_pods(self, budget: PodDisruptionBudget) -> Sequence[Pod]:
        try:
            selector = label_selector.selector_of(budget.spec.selector)
        except SelectorError as error:
            self._events.event(budget, WARNING, "NoPods", f"Failed to get pods: {error}")
            raise
        pods = self._known_pods.list(budget.metadata.namespace, selector)
        if not pods:
            self._events.event(budget, NORMAL, "NoPods", "No matching pods found")
        return pods

    async def _compute_expectation(self, budget: PodDisruptionBudget, pods: Sequence[Pod]) -> ExpectedPods:
        spec = budget.spec
        if not budgets.needs_scale(spec):
            return budgets.expectation(spec, len(pods), 0)
        try:
            total = await self._scales.total(pods)
        except (errors.ApiError, ScaleError) as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            self._events.event(budget, WARNING, "CalculateExpectedPodCountFailed", text)
            raise
        if total.unmanaged:
            text = _UNMANAGED.format(gotext.label_selector(spec.selector))
            self._events.event(budget, WARNING, "UnmanagedPods", text)
        return budgets.expectation(spec, len(pods), total.scale)

    async def _fail(self, budget: PodDisruptionBudget, why: str) -> None:
        desired = budgets.make_failed_status(budget, why, times.format_time(self._clock.now()))
        if desired != budget.status:
            await self._write(budget, desired)

    async def _write(self, budget: PodDisruptionBudget, desired: Any) -> None:
        changed = copy_of(budget)
        changed.status = desired
        try:
            await self._budgets.update_status(changed)
        except errors.NotFound:
            return

    # -- pods --------------------------------------------------------------------------------------------------------

    async def _sync_pod(self, key: NamespacedName) -> float | None:
        pod = self._known_pods.get_by_key(key)
        if pod is None:
            return None
        selecting = self._find_budgets(pod)
        if len(selecting) > 1:
            name = f'"{key.namespace}"/"{key.name}"'
            chosen = f'Chose "{selecting[0].metadata.name}" arbitrarily.'
            text = f"Pod {name} matches multiple PodDisruptionBudgets.  {chosen}"
            self._events.event(pod, WARNING, "MultiplePodDisruptionBudgets", text)
        stale_in_s = budgets.stale_in_s(pod, self._clock.now())
        if stale_in_s == 0:
            await self._clear_disruption_target(pod)
            return None
        return stale_in_s

    async def _clear_disruption_target(self, pod: Pod) -> None:
        changed = budgets.without_disruption_target(pod, times.format_time(self._clock.now()))
        try:
            await self._pods.update_status(changed)
        except errors.NotFound:
            return


def make(context: ControllerContext) -> DisruptionController:
    client = context.client
    scales = ScaleReader(client=client, informers=context.informers, discover=Discovery(client).discover_served)
    return context.build(DisruptionController, client=client, scales=scales)
