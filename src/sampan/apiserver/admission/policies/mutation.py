"""MutatingAdmissionPolicy: expressions that change objects on admission, by apply configurations and JSON patches."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sampan.api.resources.resource import Resource
from sampan.api.types.admissionregistration_v1 import MutatingAdmissionPolicy
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, WebhookIdentity
from sampan.apiserver.admission.framework.expressions import join_failures
from sampan.apiserver.admission.framework.metrics import AdmissionMetrics
from sampan.apiserver.admission.framework.predicates import is_exempt, is_review
from sampan.apiserver.admission.framework.static_manifests import StaticManifests
from sampan.apiserver.admission.policies.definitions import (
    BoundPolicy,
    PolicyDefinitions,
    compile_or_error,
)
from sampan.apiserver.admission.policies.evaluation import (
    ParamKindError,
    ParamsError,
    PolicyEvaluation,
    PolicyRequest,
    params_of,
    require_param_kind,
)
from sampan.apiserver.admission.policies.patches import JSON_PATCH, MutationPatcher
from sampan.machinery import errors
from sampan.machinery.cel.admission import compile_condition, mutating_compiler, policy_environment
from sampan.machinery.cel.errors import CelError, CompileError, CostLimitExceeded
from sampan.machinery.cel.library.mutations import find_misnamed_object
from sampan.machinery.patch import PatchError

if TYPE_CHECKING:
    from sampan.machinery.cel import Program


@dataclass(frozen=True, slots=True)
class CompiledMutation:
    patch_type: str
    expression: str
    program: Program | CelError


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledMutatingPolicy:
    variables: Mapping[str, Program | CelError]
    conditions: Sequence[tuple[str, Program | CelError]]
    mutations: Sequence[CompiledMutation]


def compile_mutating_policy(policy: MutatingAdmissionPolicy) -> CompiledMutatingPolicy:
    spec = policy.spec
    has_params = spec.paramKind is not None
    compiler = mutating_compiler(has_params=has_params, has_variables=bool(spec.variables))
    conditions = policy_environment(has_params=has_params)

    def mutation_program(text: str, patch_type: str) -> Program:
        program = compiler.mutation(text, patch_type)
        if error := find_misnamed_object(program.tree):
            raise CelError(f"type mismatch: {error}")
        return program

    variables = {
        row.name: compile_or_error(partial(compiler.variable, row.name, row.expression)) for row in spec.variables
    }
    mutations = []
    for row in spec.mutations:
        patch = row.jsonPatch if row.patchType == JSON_PATCH else row.applyConfiguration
        text = patch.expression if patch is not None else ""
        program = compile_or_error(partial(mutation_program, text, row.patchType))
        mutations.append(CompiledMutation(row.patchType, text, program))
    return CompiledMutatingPolicy(
        variables=variables,
        conditions=[
            (row.name, compile_or_error(partial(compile_condition, conditions, row.expression)))
            for row in spec.matchConditions
        ],
        mutations=mutations,
    )


@dataclass(frozen=True, slots=True)
class _Invocation:
    """One policy with one of its bindings and one parameter."""

    bound: BoundPolicy[CompiledMutatingPolicy]
    binding: Any
    resource: Resource
    """The version of the requested resource that matched the policy."""
    params: Any

    @property
    def identity(self) -> WebhookIdentity:
        metadata = (self.params or {}).get("metadata", {})
        params = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        return f"{self.bound.policy.metadata.name}/{self.binding.metadata.name}", params, 0


class MutatingAdmissionPolicyPlugin:
    name = "MutatingAdmissionPolicy"

    def __init__(self, *, metrics: AdmissionMetrics, manifests: StaticManifests | None = None) -> None:
        self._metrics = metrics
        self._definitions = PolicyDefinitions("MutatingAdmissionPolicy", compile_mutating_policy, manifests)

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        if operation not in ("CREATE", "UPDATE", "CONNECT"):
            return False
        return self._definitions.has_manifests if is_exempt(resource) else not is_review(resource)

    async def admit(self, attributes: AdmissionAttributes) -> None:
        policies = await self._definitions.policies(attributes)
        if not policies or attributes.obj is None:
            return
        failures = _Failures(attributes)
        invocations = await _find_invocations(policies, attributes, failures)
        request = PolicyRequest(attributes, type="admit", metrics=self._metrics)
        reinvocation = attributes.reinvocation
        for invocation in invocations:
            evaluation = await _start_evaluation(invocation, request)
            policy = invocation.bound.policy
            is_match, condition_failures = await evaluation.conditions_match(
                policy.metadata.name, invocation.bound.compiled.conditions
            )
            if condition_failures:
                failures.add(policy, invocation.binding, join_failures(condition_failures), "Invalid")
            if condition_failures or not is_match:
                continue
            if reinvocation.is_repeated and invocation.identity not in reinvocation.required:
                continue
            if await _mutate(invocation, request, failures):
                reinvocation.require_called()
                reinvocation.is_required = True
            if policy.spec.reinvocationPolicy == "IfNeeded":
                reinvocation.called.add(invocation.identity)
        failures.raise_all()


class _Failures:
    """The failures of policies that do not ignore them. The error has the text of the first."""

    def __init__(self, attributes: AdmissionAttributes) -> None:
        self._attributes = attributes
        self._messages: list[str] = []
        self._reason = ""

    def add(self, policy: Any, binding: Any, text: str, reason: str) -> None:
        """Add a failure, unless the policy ignores it. `binding` is None for a failure of the whole policy."""
        if policy.spec.failurePolicy != "Ignore":
            self._reason = self._reason if self._messages else reason
            name = policy.metadata.name
            title = f'"{name}"' if binding is None else f"'{name}' with binding '{binding.metadata.name}'"
            self._messages.append(f"policy {title} denied request: {text}")

    def raise_all(self) -> None:
        if self._messages:
            first = self._messages[0]
            error = self._attributes.forbidden(first, causes=[{"message": message} for message in self._messages])
            raise errors.from_status({**error.status, "message": first, "reason": self._reason, "code": 403})


async def _find_invocations(
    policies: Sequence[BoundPolicy[CompiledMutatingPolicy]], attributes: AdmissionAttributes, failures: _Failures
) -> list[_Invocation]:
    """Return what applies to the object of the request, before any policy changes it."""
    invocations = []
    for bound in policies:
        resource = await bound.matcher.match(attributes)
        if resource is None:
            continue
        try:
            require_param_kind(bound.policy.spec.paramKind, attributes)
        except ParamKindError as error:
            failures.add(bound.policy, None, f"failed to configure policy: {error}", "Forbidden")
            continue
        for compiled in bound.bindings:
            if compiled.matcher is not None and await compiled.matcher.match(attributes) is None:
                continue
            binding = compiled.binding
            try:
                parameters = await params_of(bound.policy.spec.paramKind, binding.spec.paramRef, attributes)
            except ParamsError as error:
                failures.add(bound.policy, binding, f"failed to configure binding: {error}", "Forbidden")
                continue
            invocations += [_Invocation(bound, binding, resource, params) for params in parameters or ()]
    return invocations


async def _start_evaluation(invocation: _Invocation, request: PolicyRequest) -> PolicyEvaluation:
    base = await request.variables(invocation.resource)
    return PolicyEvaluation(request, base, params=invocation.params, variables=invocation.bound.compiled.variables)


async def _mutate(invocation: _Invocation, request: PolicyRequest, failures: _Failures) -> bool:
    """Apply the mutations of a policy, of which each sees the changes of those before. Return whether the object has
    changed."""
    policy, binding, is_changed = invocation.bound.policy, invocation.binding, False
    patcher = MutationPatcher(request.attributes, invocation.resource)
    for mutation in invocation.bound.compiled.mutations:
        start, error = time.perf_counter(), None
        evaluation = await _start_evaluation(invocation, request)
        try:
            patch = await _evaluate(mutation, evaluation)
            is_changed |= await patcher.apply(evaluation.values["object"], patch, mutation.patch_type)
        except (CelError, PatchError) as failure:
            error = failure
            failures.add(policy, binding, str(failure), "Invalid")
        seconds = time.perf_counter() - start
        request.metrics.record_mutation(policy.metadata.name, binding.metadata.name, error=error, seconds=seconds)
    return is_changed


async def _evaluate(mutation: CompiledMutation, evaluation: PolicyEvaluation) -> Any:
    try:
        return await evaluation.evaluate(mutation.program)
    except (CompileError, CostLimitExceeded):
        raise
    except CelError as error:
        if isinstance(mutation.program, CelError):
            raise
        raise CelError(f"expression '{mutation.expression}' resulted in error: {error}") from None
