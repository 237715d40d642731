"""MutatingAdmissionPolicy: expressions that change objects on admission, by apply configurations and JSON patches."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sampan.api.codec import json
from sampan.api.resources.resource import Resource
from sampan.api.types.admissionregistration_v1 import MutatingAdmissionPolicy
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.admission.framework.metrics import AdmissionMetrics
from sampan.apiserver.admission.framework.predicates import is_exempt
from sampan.apiserver.admission.framework.versioned_object import VersionedObjects
from sampan.apiserver.admission.policies.definitions import (
    BoundPolicy,
    CompiledBinding,
    PolicyDefinitions,
    compile_or_error,
)
from sampan.apiserver.admission.policies.evaluation import ParamsError, PolicyEvaluation, PolicyRequest, params_of
from sampan.machinery import errors
from sampan.machinery.apply.atoms import Atom, build_object_atom
from sampan.machinery.apply.merge import merge
from sampan.machinery.cel.admission import compile_condition, mutating_compiler, policy_environment
from sampan.machinery.cel.errors import CelError
from sampan.machinery.cel.library.mutations import find_misnamed_object
from sampan.machinery.patch import PatchError, apply_json_patch, check_json_patch

if TYPE_CHECKING:
    from sampan.machinery.cel import Program

_JSON_PATCH = "JSONPatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledMutatingPolicy:
    variables: Mapping[str, Program | CelError]
    conditions: Sequence[tuple[str, Program | CelError]]
    mutations: Sequence[tuple[str, Program | CelError]]
    """The patch type and the expression of each mutation."""


def compile_mutating_policy(policy: MutatingAdmissionPolicy) -> CompiledMutatingPolicy:
    spec = policy.spec
    has_params = spec.paramKind is not None
    compiler, conditions = mutating_compiler(has_params=has_params), policy_environment(has_params=has_params)

    def mutation_program(text: str, patch_type: str) -> Program:
        program = compiler.mutation(text, patch_type)
        if error := find_misnamed_object(program.tree):
            raise CelError(error)
        return program

    variables = {
        row.name: compile_or_error(partial(compiler.variable, row.name, row.expression)) for row in spec.variables
    }
    mutations: list[tuple[str, Program | CelError]] = []
    for row in spec.mutations:
        patch = row.jsonPatch if row.patchType == _JSON_PATCH else row.applyConfiguration
        text = patch.expression if patch is not None else ""
        mutations.append((row.patchType, compile_or_error(partial(mutation_program, text, row.patchType))))
    return CompiledMutatingPolicy(
        variables=variables,
        conditions=[
            (row.name, compile_or_error(partial(compile_condition, conditions, row.expression)))
            for row in spec.matchConditions
        ],
        mutations=mutations,
    )


class MutatingAdmissionPolicyPlugin:
    name = "MutatingAdmissionPolicy"

    def __init__(self, *, metrics: AdmissionMetrics) -> None:
        self._metrics = metrics
        self._definitions = PolicyDefinitions("MutatingAdmissionPolicy", compile_mutating_policy)

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return operation in ("CREATE", "UPDATE", "CONNECT") and not is_exempt(resource)

    async def admit(self, attributes: AdmissionAttributes) -> None:
        policies = await self._definitions.policies(attributes.registry)
        if not policies or attributes.obj is None:
            return
        reinvocation = attributes.reinvocation
        for policy in policies:
            identity = ("", policy.policy.metadata.name, 0)
            if reinvocation.is_repeated and identity not in reinvocation.required:
                continue
            if await _mutate(policy, PolicyRequest(attributes, type="admit", metrics=self._metrics)):
                reinvocation.require_called()
                reinvocation.is_required = True
            if policy.policy.spec.reinvocationPolicy == "IfNeeded":
                reinvocation.called.add(identity)


async def _mutate(bound: BoundPolicy[CompiledMutatingPolicy], request: PolicyRequest) -> bool:
    """Apply the mutations of a policy for all of its bindings. Return whether the object has changed."""
    attributes, is_changed = request.attributes, False
    resource = await bound.matcher.match(attributes)
    if resource is None:
        return False
    for binding in bound.bindings:
        if binding.matcher is not None and await binding.matcher.match(attributes) is None:
            continue
        start, names = time.perf_counter(), (bound.policy.metadata.name, binding.binding.metadata.name)
        try:
            is_changed |= await _mutate_for_binding(bound, binding, request, resource)
            request.metrics.record_mutation(*names, error=None, seconds=time.perf_counter() - start)
        except (ParamsError, CelError, PatchError, json.DecodeError, ValueError) as error:
            request.metrics.record_mutation(*names, error=error, seconds=time.perf_counter() - start)
            if bound.policy.spec.failurePolicy != "Ignore":
                raise _denial(bound.policy.metadata.name, binding, attributes, str(error)) from None
    return is_changed


async def _mutate_for_binding(
    bound: BoundPolicy[CompiledMutatingPolicy], compiled: CompiledBinding, request: PolicyRequest, resource: Resource
) -> bool:
    attributes, binding, is_changed = request.attributes, compiled.binding, False
    objects = VersionedObjects(attributes.registry, resource)
    try:
        parameters = await params_of(bound.policy.spec.paramKind, binding.spec.paramRef, attributes)
    except ParamsError as error:
        raise ParamsError(f"failed to configure binding: {error}") from None
    base, atom = await request.variables(resource), _atom(resource, attributes)
    for params in parameters or ():
        for patch_type, program in bound.compiled.mutations:
            evaluation = PolicyEvaluation(request, base, params=params, variables=bound.compiled.variables)
            is_match, failures = await evaluation.conditions_match(
                bound.policy.metadata.name, bound.compiled.conditions
            )
            if not is_match:
                break
            if failures:
                raise CelError(str(failures[0]))
            before = base["object"]
            after = _apply_patch(before, await evaluation.evaluate(program), patch_type, atom)
            if after != before:
                await objects.replace(attributes.obj, after)
                base, is_changed = await request.variables(resource), True  # the next mutation sees the change
    return is_changed


def _atom(resource: Resource, attributes: AdmissionAttributes) -> Atom:
    return build_object_atom(attributes.registry.codec_of(resource).schema, is_custom=resource.is_custom)


def _apply_patch(before: dict[str, Any], patch: Any, patch_type: str, atom: Atom) -> Any:
    if patch_type == _JSON_PATCH:
        try:
            return apply_json_patch(before, check_json_patch(patch))
        except PatchError as error:
            raise ValueError(f"JSON Patch: {error}") from None
    if not patch:
        return before
    title = {"apiVersion": before["apiVersion"], "kind": before["kind"]}
    return merge(before, {**title, **patch}, atom)


def _denial(policy: str, compiled: CompiledBinding, attributes: AdmissionAttributes, text: str) -> errors.ApiError:
    message = f"policy '{policy}' with binding '{compiled.binding.metadata.name}' denied request: {text}"
    error = attributes.forbidden(message, causes=[{"message": message}])
    return errors.from_status({**error.status, "message": message, "reason": "Invalid", "code": 403})
