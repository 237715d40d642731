"""The pods/eviction subresource: deletes a pod if its disruption budget allows it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sampan.api.codec import json as json_codec
from sampan.api.field_errors import FieldError
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.selectors.label_selector import is_selected
from sampan.api.semantics.conditions import FALSE, find_condition, keep_transition_time, without_condition
from sampan.api.semantics.pods import is_ready, set_pod_condition
from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import Condition
from sampan.api.types.policy_v1 import Eviction, PodDisruptionBudget
from sampan.apiserver.registry import preconditions
from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.apiserver.registry.strategy import Context, Strategy
from sampan.apiserver.request import bodies, options
from sampan.apiserver.response.responses import ValueResponse, created_status
from sampan.machinery import errors
from sampan.storage.cacher import ListQuery, ObjectSelection

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.request.call import Call

_MESSAGE = "Cannot evict pod as it would violate the pod's disruption budget."
_CONDITION = "DisruptionAllowed"
_CAUSE = "DisruptionBudget"
_MAX_DISRUPTED_PODS = 2000


def is_guarded(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """Whether evicting the pod requires an allowed disruption of the budget.

    It does not for a pod that is not ready if the budget's policy is AlwaysAllow, or if the budget is met without the
    pod.
    """
    if is_ready(pod):
        return True
    if budget.spec.unhealthyPodEvictionPolicy == "AlwaysAllow":
        return False
    status = budget.status
    return not (status.currentHealthy >= status.desiredHealthy > 0)


def allow_disruption(budget: PodDisruptionBudget, pod: str, now: str) -> None:
    """Take one allowed disruption from the budget, in place.

    Raise TooManyRequests if none is left or the budget's status is outdated, Forbidden if its status makes no sense.
    """
    status, name = budget.status, budget.metadata.name
    if status.observedGeneration < budget.metadata.generation:
        raise still_processed_error(budget)
    if status.disruptionsAllowed < 0:
        text = "pdb disruptions allowed is negative"
        raise _forbidden(name, text, text)
    if len(status.disruptedPods) > _MAX_DISRUPTED_PODS:
        text = "too many {}evictions not confirmed by PDB controller"
        raise _forbidden(name, f"DisruptedPods map too big - {text.format('')}", text.format("pending "))
    if status.disruptionsAllowed == 0:
        raise _refusal(_explain_refusal(budget))
    status.disruptionsAllowed -= 1
    if status.disruptionsAllowed == 0:
        _set_condition(budget, now)
    status.disruptedPods[pod] = now


def still_processed_error(budget: PodDisruptionBudget) -> errors.ApiError:
    why = f"The disruption budget {budget.metadata.name} is still being processed by the server."
    return _refusal(why, retry_after_s=10)


def _refusal(why: str, retry_after_s: int = 0) -> errors.ApiError:
    causes = [{"reason": _CAUSE, "message": why}]
    return errors.too_many_requests(_MESSAGE, retry_after_s=retry_after_s, causes=causes)


def _forbidden(name: str, why: str, cause: str) -> errors.ApiError:
    text = f"The disruption budget {name} does not allow evicting pods currently: {cause}"
    causes = ({"reason": _CAUSE, "message": text},)
    return errors.forbidden("poddisruptionbudget", name, why, group="policy", causes=causes)


def _explain_refusal(budget: PodDisruptionBudget) -> str:
    status, start = budget.status, f"The disruption budget {budget.metadata.name}"
    condition = find_condition(status.conditions, _CONDITION)
    says_no = condition is not None and condition.status == "False" and bool(condition.message)
    if condition is not None and says_no and condition.reason == "SyncFailed":
        return f"{start} does not allow evicting pods currently because it failed sync: {condition.message}"
    if status.currentHealthy <= status.desiredHealthy:
        return f"{start} needs {status.desiredHealthy} healthy pods and has {status.currentHealthy} currently"
    if condition is not None and says_no:
        return f"{start} does not allow evicting pods currently ({condition.reason}): {condition.message}"
    return f"{start} does not allow evicting pods currently"


def _set_condition(budget: PodDisruptionBudget, now: str) -> None:
    desired = Condition(
        type=_CONDITION,
        status=FALSE,
        reason="InsufficientPods",
        observedGeneration=budget.status.observedGeneration,
        lastTransitionTime=now,
    )
    keep_transition_time(find_condition(budget.status.conditions, _CONDITION), desired)
    budget.status.conditions = [*without_condition(budget.status.conditions, _CONDITION), desired]


_EVICTION = GroupVersionKind(group="policy", version="v1", kind="Eviction")
_UNSUPPORTED = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_TERMINAL_PHASES = ("Succeeded", "Failed")
_ATTEMPTS = 20


class _OwnWrite(Strategy):
    """The strategy of the server's own writes, which need no preparation or validation."""


_STRATEGY = _OwnWrite()


async def evict(endpoints: ApiEndpoints, call: Call) -> ValueResponse:
    opts = options.write_options("CreateOptions", call.query)
    eviction: Eviction = await endpoints.read_object(call, endpoints.registry.codec(_EVICTION), opts.field_validation)
    bodies.match_namespace(call, eviction)
    deletion = _delete_options(eviction, call.name, opts.dry_run)
    ctx = endpoints.context(call, deletion.dry_run)
    await endpoints.admission.admit(endpoints.attributes("CREATE", call, eviction, None, ctx))
    await endpoints.admission.validate(endpoints.attributes("CREATE", call, eviction, None, ctx))
    return created_status(await _evict(endpoints, ctx, call.name, deletion))


def _delete_options(eviction: Eviction, name: str, is_dry_run: bool) -> DeleteOptions:
    if eviction.metadata.name != name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    raw_options = eviction.deleteOptions
    if raw_options is None:
        return DeleteOptions(dry_run=is_dry_run)
    if raw_options.ignoreStoreReadErrorWithClusterBreakingPotential:
        path = "deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential"
        error = FieldError.invalid(path, True, "can not be set for pod eviction, try after removing the option")
        raise errors.invalid("Eviction", name, [error], group="policy")
    delete_options = options.parse_delete_options(json_codec.to_value(raw_options))
    return replace(delete_options, dry_run=delete_options.dry_run or is_dry_run)


async def _evict(endpoints: ApiEndpoints, ctx: Context, name: str, deletion: DeleteOptions) -> Pod:
    """Delete the pod if the disruption budgets allow it, and return it.

    A pod to which budgets do not apply is deleted, with retries if it changes in the meantime: nothing was taken from a
    budget that a retry could take again. If the client requires a resourceVersion, a conflict is returned instead.
    """
    store = endpoints.registry.open_store_of("", "v1", "Pod")
    for attempts_left in reversed(range(_ATTEMPTS)):
        item = await store.get(ctx.namespace, name)
        pod: Pod = item.object(store.codec.decode)
        preconditions.check(pod, uid=deletion.uid, resource_version=deletion.resource_version)
        if not _ignores_budgets(pod):
            return await _evict_serving(endpoints, ctx, pod, deletion)
        try:
            return await _delete(
                endpoints, ctx, name, _pin_resource_version(deletion, pod) if _may_get_ready(pod) else deletion
            )
        except errors.Conflict:
            if deletion.resource_version is not None or not attempts_left:
                raise
    raise AssertionError("the last attempt returns or raises")


async def _evict_serving(endpoints: ApiEndpoints, ctx: Context, pod: Pod, deletion: DeleteOptions) -> Pod:
    """Evict a pod to which a budget may apply, and return it.

    If its budget guards it, one disruption is taken from the budget first. Otherwise the pod is not ready, and is
    deleted only if it has not changed since: it may have become ready, and then its budget applies. Such a conflict
    gets the response of a budget whose status is outdated.
    """
    name, budget = pod.metadata.name, await _budget(endpoints, pod)
    if budget is None:
        return await _delete(endpoints, ctx, name, deletion)
    if is_guarded(pod, budget):
        await _decrement(endpoints, ctx, name, budget.metadata.name)
        return await _delete(endpoints, ctx, name, deletion)
    try:
        return await _delete(endpoints, ctx, name, _pin_resource_version(deletion, pod))
    except errors.Conflict:
        if deletion.resource_version is not None:
            raise
        raise still_processed_error(budget) from None


def _pin_resource_version(deletion: DeleteOptions, pod: Pod) -> DeleteOptions:
    """Return the options with the pod's resourceVersion as a precondition."""
    if deletion.resource_version is not None:
        return deletion
    return replace(deletion, resource_version=pod.metadata.resourceVersion)


def _may_get_ready(pod: Pod) -> bool:
    return pod.metadata.deletionTimestamp is None and pod.status.phase not in _TERMINAL_PHASES


def _ignores_budgets(pod: Pod) -> bool:
    """Whether budgets do not apply, because the pod is pending, terminated or being deleted."""
    return pod.metadata.deletionTimestamp is not None or pod.status.phase in ("Pending", *_TERMINAL_PHASES)


async def _budget(endpoints: ApiEndpoints, pod: Pod) -> PodDisruptionBudget | None:
    store = endpoints.registry.open_store_of("policy", "v1", "PodDisruptionBudget")
    result = await store.cacher.list(ListQuery(ObjectSelection(namespace=pod.metadata.namespace)))
    budgets: list[PodDisruptionBudget] = [item.object(store.codec.decode) for item in result.items]
    matches = [budget for budget in budgets if is_selected(pod.metadata.labels, budget.spec.selector)]
    if len(matches) > 1:
        raise errors.unexpected_error(_UNSUPPORTED)
    return matches[0] if matches else None


async def _decrement(endpoints: ApiEndpoints, ctx: Context, pod: str, name: str) -> None:
    store = endpoints.registry.open_store_of("policy", "v1", "PodDisruptionBudget")

    async def change(budget: Any) -> Any:
        allow_disruption(budget, pod, ctx.now)
        return budget

    await store.update(ctx, name, change, strategy=_STRATEGY)


async def _delete(endpoints: ApiEndpoints, ctx: Context, name: str, deletion: DeleteOptions) -> Pod:
    """Set the DisruptionTarget condition in the pod's status, then delete the pod and return it."""
    store = endpoints.registry.open_store_of("", "v1", "Pod")

    async def change(pod: Any) -> Any:
        preconditions.check(pod, uid=deletion.uid, resource_version=deletion.resource_version)
        set_pod_condition(
            pod.status,
            "DisruptionTarget",
            "True",
            now=ctx.now,
            reason="EvictionByEvictionAPI",
            message="Eviction API: evicting",
        )
        return pod

    if not deletion.dry_run:
        written = await store.update(ctx, name, change, strategy=_STRATEGY)
        if deletion.resource_version:
            deletion = replace(deletion, resource_version=written.obj.metadata.resourceVersion)
    deleted: Pod = (await store.delete(ctx, name, deletion)).obj
    return deleted
