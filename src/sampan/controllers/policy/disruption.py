"""disruption-controller, which maintains the status of PodDisruptionBudgets; it has one key per budget and one per pod
with a stale DisruptionTarget condition."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from sampan.api import label_selector, times
from sampan.api.label_grammar import SelectorError
from sampan.api.label_selector import is_selected
from sampan.api.types.core_v1 import Pod
from sampan.api.types.policy_v1 import PodDisruptionBudget
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.policy import budgets
from sampan.controllers.policy.budgets import Expectation
from sampan.controllers.policy.scales import ScaleError, Scales
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.client.discovery import Discovery
from sampan.machinery.clock import Clock
from sampan.machinery.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory, by_namespace
from sampan.machinery.object_key import NamespacedName, key_of

_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)


class PodKey(NamedTuple):
    """The key of a pod, as opposed to that of a budget."""

    pod: NamespacedName


class DisruptionController:
    name = "disruption-controller"

    def __init__(
        self, *, client: Client, informers: InformerFactory, scales: Scales, events: EventRecorder, clock: Clock
    ) -> None:
        self._budgets, self._pods = client.of(PodDisruptionBudget), client.of(Pod)
        self._scales, self._events, self._clock = scales, events, clock
        self._known = informers.of(PodDisruptionBudget).lister
        self._known_pods = informers.of(Pod).lister
        self._known.add_index(by_namespace)
        self._known_pods.add_index(by_namespace)
        self.watches = (
            Watch(resource_of(PodDisruptionBudget), lambda budget: (key_of(budget),)),
            Watch(resource_of(Pod), self._concerned),
            *(Watch(resource_of(kind)) for kind in scales.kinds),
        )

    def _concerned(self, pod: Pod) -> Iterable[Hashable]:
        keys: list[Hashable] = [key_of(budget) for budget in self._selecting(pod)]
        if len(keys) > 1 or budgets.stale_in_s(pod, 0) is not None:
            keys.append(PodKey(key_of(pod)))
        return keys

    def _selecting(self, pod: Pod) -> Sequence[PodDisruptionBudget]:
        candidates = self._known.find(by_namespace, pod.metadata.namespace)
        return [budget for budget in candidates if is_selected(pod.metadata.labels, budget.spec.selector)]

    async def reconcile(self, key: Any) -> float | None:
        if isinstance(key, PodKey):
            return await self._look_at_pod(key.pod)
        budget = self._known.by_key(key)
        return await self._look_at_budget(budget) if budget is not None else None

    # -- budgets -----------------------------------------------------------------------------------------------------

    async def _look_at_budget(self, budget: PodDisruptionBudget) -> float | None:
        try:
            return await self._sync(budget)
        except (errors.ApiError, ScaleError, SelectorError) as error:
            if isinstance(error, errors.Conflict):
                raise
            await self._fail(budget, str(error))
            return None

    async def _sync(self, budget: PodDisruptionBudget) -> float | None:
        pods = self._selected(budget)
        expected = await self._expected(budget, pods)
        now = self._clock.now()
        disrupted = budgets.disrupted(budget, pods, now)
        for pod in disrupted.expired:
            namespace = budget.metadata.namespace
            text = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            self._events.event(pod, WARNING, "NotDeleted", text)
        current = budgets.healthy(pods, disrupted.since, now)
        desired = budgets.status(budget, expected, current, disrupted.since, times.format_time(now))
        if desired != budget.status:
            await self._write(budget, desired)
        return disrupted.again_s

    def _selected(self, budget: PodDisruptionBudget) -> Sequence[Pod]:
        try:
            selector = label_selector.selector_of(budget.spec.selector)
        except SelectorError as error:
            self._events.event(budget, WARNING, "NoPods", f"Failed to get pods: {error}")
            raise
        pods = self._known_pods.list(budget.metadata.namespace, selector)
        if not pods:
            self._events.event(budget, NORMAL, "NoPods", "No matching pods found")
        return pods

    async def _expected(self, budget: PodDisruptionBudget, pods: Sequence[Pod]) -> Expectation:
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
            text = _UNMANAGED.format(budgets.as_text(spec.selector))
            self._events.event(budget, WARNING, "UnmanagedPods", text)
        return budgets.expectation(spec, len(pods), total.scale)

    async def _fail(self, budget: PodDisruptionBudget, why: str) -> None:
        desired = budgets.failed(budget, why, times.format_time(self._clock.now()))
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

    async def _look_at_pod(self, key: NamespacedName) -> float | None:
        pod = self._known_pods.by_key(key)
        if pod is None:
            return None
        selecting = self._selecting(pod)
        if len(selecting) > 1:
            name = f'"{key.namespace}"/"{key.name}"'
            chosen = f'Chose "{selecting[0].metadata.name}" arbitrarily.'
            text = f"Pod {name} matches multiple PodDisruptionBudgets.  {chosen}"
            self._events.event(pod, WARNING, "MultiplePodDisruptionBudgets", text)
        stale_in_s = budgets.stale_in_s(pod, self._clock.now())
        if stale_in_s == 0:
            await self._take_back(pod)
            return None
        return stale_in_s

    async def _take_back(self, pod: Pod) -> None:
        changed = budgets.without_disruption_target(pod, times.format_time(self._clock.now()))
        try:
            await self._pods.update_status(changed)
        except errors.NotFound:
            return


def make(context: ControllerContext) -> DisruptionController:
    client = context.client
    scales = Scales(client=client, informers=context.informers, discover=Discovery(client).served)
    return context.build(DisruptionController, client=client, scales=scales)
