"""One evaluation of one autoscaler: from the target's scale and the metrics to the new number of replicas."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from sampan.api.selectors import labels
from sampan.api.selectors.label_grammar import SelectorError
from sampan.api.selectors.labels import Selector
from sampan.api.semantics.conditions import find_condition, is_true, without_condition
from sampan.api.types.autoscaling_v1 import Scale
from sampan.api.types.autoscaling_v2 import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricStatus,
)
from sampan.api.types.core_v1 import Pod
from sampan.api.values import quantity
from sampan.api.values.times import format_time
from sampan.controllers.autoscaling.behavior import (
    Recommendations,
    ScaleEvents,
    limit_replicas,
    limit_replicas_with_behavior,
)
from sampan.controllers.autoscaling.metrics import MetricsSource
from sampan.controllers.autoscaling.proposals import MetricEvaluator, MetricFailure, ReplicaProposal
from sampan.controllers.autoscaling.replicas import PodWarmup, ScalingInputs, ScalingTolerances
from sampan.controllers.autoscaling.target import ScaleKinds, ScaleTarget, UnknownKind
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.copies import copy_of
from sampan.machinery.decisions import note_decision
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.informer import Lister
from sampan.machinery.object_key import NamespacedName

_NO_SCALE = "the HPA controller was unable to get the target's current scale: {}"
_NO_COUNT = "the HPA was unable to compute the replica count: {}"
ABLE, ACTIVE, LIMITED, SCALED_TO_ZERO = "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerConfig:
    period_s: float = 15.0
    downscale_window_s: float = 300.0
    """Downscale stabilization window in seconds, for autoscalers that set none."""
    tolerance: float = 0.1
    warmup: PodWarmup = field(default_factory=PodWarmup)
    has_generation: bool = True
    """Whether autoscalers have a generation, which their status reports: the feature gate HPAGeneration."""
    scales_to_zero: bool = True
    """Whether a target may be scaled to zero and back: the feature gate HPAScaleToZero."""
    skips_stale_autoscalers: bool = True
    """Whether an autoscaler waits until the cache shows its last status: the gate StaleControllerConsistencyHPA."""


@dataclass(slots=True)
class AutoscalerState:
    """The state that is kept for one autoscaler between evaluations."""

    recommendations: Recommendations
    changes: ScaleEvents = field(default_factory=ScaleEvents)
    selector: Selector = labels.NOTHING
    """Selects the pods of the scale target."""
    due: float = 0.0
    generation: int | None = None
    """The generation of the last evaluation, if autoscalers have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerDependencies:
    """The collaborators that all evaluations of autoscalers share."""

    client: Client
    kinds: ScaleKinds
    pods: Lister[Pod]
    events: EventRecorder
    source: MetricsSource
    config: AutoscalerConfig
    rivals: Callable[[str, Selector], Sequence[NamespacedName]]
    """Return the autoscalers of a namespace that share pods with the specified selector."""


class _EvaluationStopped(Exception):
    """The evaluation cannot continue. The status and the events already state the reason."""


class AutoscalerReconciler:
    """One evaluation of one autoscaler, which changes `hpa` in place."""

    def __init__(
        self,
        *,
        means: AutoscalerDependencies,
        hpa: HorizontalPodAutoscaler,
        memory: AutoscalerState,
        now: float,
        monotonic: float,
    ) -> None:
        self._of, self._hpa, self._memory = means, hpa, memory
        self._now, self._monotonic = now, monotonic
        self._metrics: list[MetricStatus] | None = None

    async def run(self) -> None:
        hpa = self._hpa
        try:
            target, scale = await self._target()
            current = scale.spec.replicas
            self._memory.recommendations.seed(current, self._monotonic)
            desired, reason = await self._decide_replicas(scale)
        except _EvaluationStopped:
            return
        if desired != current:
            note_decision(f"{desired} replicas", current, f"scale ({reason or 'no reason'})")
            try:
                await target.set_replicas(scale, desired)
            except (errors.ApiError, ConnectionFailed) as error:
                return self._record_rescale_failure(current, desired, reason, error)
            self._record_rescale(current, desired, reason)
            hpa.status.lastScaleTime = format_time(self._now)
        self._set_status(current, desired)

    # -- scale target ------------------------------------------------------------------------------------------------

    async def _target(self) -> tuple[ScaleTarget, Scale]:
        ref, hpa = self._hpa.spec.scaleTargetRef, self._hpa
        group = ref.apiVersion.partition("/")[0] if "/" in ref.apiVersion else ""
        try:
            if ref.apiVersion.count("/") > 1:
                raise UnknownKind(f"unexpected GroupVersion string: {ref.apiVersion}")
            resource = await self._of.kinds.resource(group, ref.kind)
            target = ScaleTarget(
                client=self._of.client, resource=resource, namespace=hpa.metadata.namespace, name=ref.name
            )
            scale = await target.scale()
        except (UnknownKind, errors.ApiError, ConnectionFailed) as error:
            self._record_event(WARNING, "FailedGetScale", str(error))
            self._set_condition(ABLE, False, "FailedGetScale", _NO_SCALE.format(error))
            raise _EvaluationStopped from None
        message = "the HPA controller was able to get the target's current scale"
        self._set_condition(ABLE, True, "SucceededGetScale", message)
        return target, copy_of(scale)

    def _record_rescale(self, current: int, desired: int, reason: str) -> None:
        message = f"the HPA controller was able to update the target scale to {desired}"
        self._set_condition(ABLE, True, "SucceededRescale", message)
        self._record_event(NORMAL, "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
        self._memory.changes.note(self._hpa.spec.behavior, current, desired, self._monotonic)
        self._note_scale_to_zero(current, desired)

    def _note_scale_to_zero(self, current: int, desired: int) -> None:
        hpa = self._hpa
        if not self._of.config.scales_to_zero:
            remove_condition(hpa.status, SCALED_TO_ZERO)
        elif current > 0 and desired == 0 and hpa.spec.minReplicas == 0 and has_object_or_external_metric(hpa):
            message = "the HPA controller scaled the workload to zero"
            self._set_condition(SCALED_TO_ZERO, True, "ScaledToZero", message)
        else:
            message = "the HPA controller did not scale the workload to zero"
            self._set_condition(SCALED_TO_ZERO, False, "NotScaledToZero", message)

    def _record_rescale_failure(self, current: int, desired: int, reason: str, error: Exception) -> None:
        self._record_event(WARNING, "FailedRescale", f"New size: {desired}; reason: {reason}; error: {error}")
        message = f"the HPA controller was unable to update the target scale: {error}"
        self._set_condition(ABLE, False, "FailedUpdateScale", message)
        self._set_status(current, self._hpa.status.desiredReplicas)

    # -- number of replicas ------------------------------------------------------------------------------------------

    async def _decide_replicas(self, scale: Scale) -> tuple[int, str]:
        """Return the desired number of replicas and the reason for it."""
        spec, current = self._hpa.spec, scale.spec.replicas
        minimum = 1 if spec.minReplicas is None else spec.minReplicas
        if current == 0:
            return await self._decide_replicas_from_zero(scale, minimum)
        if current > spec.maxReplicas:
            return spec.maxReplicas, "Current number of replicas above Spec.MaxReplicas"
        if current < minimum:
            return minimum, "Current number of replicas below Spec.MinReplicas"
        return await self._evaluate_metrics(scale, minimum)

    async def _decide_replicas_from_zero(self, scale: Scale, minimum: int) -> tuple[int, str]:
        """A target that the user has scaled to zero stays there; one that its autoscaler has scaled to zero returns."""
        scales_to_zero, status = self._of.config.scales_to_zero, self._hpa.status
        is_own_zero = scales_to_zero and is_true(status.conditions, SCALED_TO_ZERO)
        if is_own_zero and (minimum or has_object_or_external_metric(self._hpa)):
            desired, reason = await self._evaluate_metrics(scale, minimum)
            return max(desired, minimum), reason or "Current number of replicas below Spec.MinReplicas"
        message = "scaling is disabled since the replica count of the target is zero"
        self._set_condition(ACTIVE, False, "ScalingDisabled", message)
        if not scales_to_zero:
            remove_condition(status, SCALED_TO_ZERO)
        return 0, ""

    async def _evaluate_metrics(self, scale: Scale, minimum: int) -> tuple[int, str]:
        current = scale.spec.replicas
        proposal = await self._proposal(scale)
        desired = max(proposal.replicas, 0)
        reason = f"{proposal.metric if desired else ''} above target" if desired > current else ""
        if desired < current:
            reason = "All metrics below target"
        return self._apply_behavior(current, desired, minimum), reason

    def _apply_behavior(self, current: int, recommended: int, minimum: int) -> int:
        """Return the recommendation after stabilization and limits, and set the conditions that explain it."""
        behavior, maximum, memory, now = (
            self._hpa.spec.behavior,
            self._hpa.spec.maxReplicas,
            self._memory,
            self._monotonic,
        )
        if behavior is None:
            stable = memory.recommendations.stabilize(recommended, now)
            limited = limit_replicas(current, stable.replicas, minimum, maximum)
        else:
            stable = memory.recommendations.stabilize_with_behavior(behavior, current, recommended, now)
            limited = limit_replicas_with_behavior(
                behavior,
                memory.changes,
                current=current,
                desired=stable.replicas,
                minimum=minimum,
                maximum=maximum,
                now=now,
            )
        self._set_condition(ABLE, True, stable.reason, stable.message)
        self._set_condition(LIMITED, limited.replicas != stable.replicas, limited.reason, limited.message)
        return limited.replicas

    async def _proposal(self, scale: Scale) -> ReplicaProposal:
        """Return the highest of the proposals of all metrics."""
        current, specs = scale.spec.replicas, self._hpa.spec.metrics
        asking = self._evaluator(scale, self._selector(scale))
        self._metrics = [MetricStatus() for _ in specs]
        failures: list[MetricFailure] = []
        best: ReplicaProposal | None = None
        for index, spec in enumerate(specs):
            try:
                proposal = await asking.propose(spec)
            except MetricFailure as failure:
                failures.append(failure)
                self._record_event(WARNING, failure.reason, failure.detail)
                continue
            self._metrics[index] = proposal.status
            if best is None or best.replicas == 0 or proposal.replicas > best.replicas:
                best = proposal
        if best is None or (failures and best.replicas < current):
            self._fail(current, failures, len(specs))
        message = f"the HPA was able to successfully calculate a replica count from {best.metric}"
        self._set_condition(ACTIVE, True, "ValidMetricFound", message)
        return best

    def _fail(self, current: int, failures: Sequence[MetricFailure], metrics: int) -> NoReturn:
        if failures:
            first = failures[0]
            self._set_condition(ACTIVE, False, first.reason, _NO_COUNT.format(first.detail))
            message = f"invalid metrics ({len(failures)} invalid out of {metrics}), first error is: {first}"
            self._record_event(WARNING, "FailedComputeMetricsReplicas", message)
        self._set_status(current, self._hpa.status.desiredReplicas)
        raise _EvaluationStopped

    def _evaluator(self, scale: Scale, selector: Selector) -> MetricEvaluator:
        namespace = self._hpa.metadata.namespace
        situation = ScalingInputs(
            pods=self._of.pods.list(namespace, selector),
            current=scale.spec.replicas,
            actual=scale.status.replicas,
            tolerances=self._tolerances(),
            warmup=self._of.config.warmup,
            now=self._now,
        )
        return MetricEvaluator(self._of.source, namespace, selector, situation)

    def _tolerances(self) -> ScalingTolerances:
        behavior, usual = self._hpa.spec.behavior, self._of.config.tolerance
        down = behavior.scaleDown.tolerance if behavior is not None and behavior.scaleDown is not None else None
        up = behavior.scaleUp.tolerance if behavior is not None and behavior.scaleUp is not None else None
        return ScalingTolerances(
            down=usual if down is None else quantity.parse(down).as_float(),
            up=usual if up is None else quantity.parse(up).as_float(),
        )

    # -- selector ----------------------------------------------------------------------------------------------------

    def _selector(self, scale: Scale) -> Selector:
        text = scale.status.selector
        if not text:
            message, missing = "selector is required", "the HPA target's scale is missing a selector"
            return self._refuse_selector(scale, "SelectorRequired", message, "InvalidSelector", missing)
        try:
            selector = labels.parse(text)
        except SelectorError as error:
            message = f"couldn't convert selector into a corresponding internal selector object: {error}"
            return self._refuse_selector(scale, "InvalidSelector", message, "InvalidSelector", message)
        self._memory.selector = selector
        if len(rivals := self._of.rivals(self._hpa.metadata.namespace, selector)) > 1:
            names = " ".join(f"{{{key.name} {key.namespace}}}" for key in rivals)
            message = f"pods by selector {text} are controlled by more than one HPA (e.g. [{names}])"
            return self._refuse_selector(scale, "AmbiguousSelector", message, "AmbiguousSelector", message)
        return selector

    def _refuse_selector(self, scale: Scale, event: str, event_message: str, reason: str, message: str) -> Selector:
        self._record_event(WARNING, event, event_message)
        self._set_condition(ACTIVE, False, reason, message)
        self._record_event(WARNING, "FailedComputeMetricsReplicas", event_message)
        self._set_status(scale.spec.replicas, self._hpa.status.desiredReplicas)
        raise _EvaluationStopped

    # -- status and events -------------------------------------------------------------------------------------------

    def _set_status(self, current: int, desired: int) -> None:
        status = self._hpa.status
        status.currentReplicas, status.desiredReplicas = current, desired
        status.currentMetrics = self._metrics or None
        status.observedGeneration = self._hpa.metadata.generation if self._of.config.has_generation else None

    def _set_condition(self, type: str, is_true: bool, reason: str, message: str) -> None:
        set_condition(self._hpa.status, type, is_true, reason, message, self._now)

    def _record_event(self, type: str, reason: str, message: str) -> None:
        self._of.events.event(self._hpa, type, reason, message)


def set_condition(
    status: HorizontalPodAutoscalerStatus, type: str, is_true: bool, reason: str, message: str, now: float
) -> None:
    value = "True" if is_true else "False"
    condition = find_condition(status.conditions, type)
    if condition is None:
        condition = HorizontalPodAutoscalerCondition(type=type)
        status.conditions.append(condition)
    if condition.status != value:
        condition.lastTransitionTime = format_time(now)
    condition.status, condition.reason, condition.message = value, reason, message


def has_object_or_external_metric(hpa: HorizontalPodAutoscaler) -> bool:
    """Whether a metric has a value even without pods."""
    return any(metric.type in ("Object", "External") for metric in hpa.spec.metrics)


def remove_condition(status: HorizontalPodAutoscalerStatus, type: str) -> None:
    status.conditions = without_condition(status.conditions, type)
