"""The strategies and validation that validating and mutating admission policies share, and those that their bindings
share."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.selectors.label_selector import selector_errors
from sampan.api.types.admissionregistration_v1 import (
    MatchResources,
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec,
    MutatingAdmissionPolicySpec,
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
    Variable,
)
from sampan.apiserver.registry.admission_configs.match_resources import (
    FAILURE_POLICIES,
    default_resources,
    expression_error,
    validate_match_conditions,
    validate_match_resources,
)
from sampan.apiserver.registry.admission_configs.reserved_names import ReservedNamesStrategy
from sampan.apiserver.registry.strategy import Column
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_subdomain,
    validate_one_of,
    validate_optional_one_of,
)
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME
from sampan.machinery.cel.admission import PolicyExpressionCompiler, policy_environment
from sampan.machinery.cel.environment import Program
from sampan.machinery.cel.errors import CelError
from sampan.machinery.cel.escapes import RESERVED

PolicySpec = ValidatingAdmissionPolicySpec | MutatingAdmissionPolicySpec

_is_identifier = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*").fullmatch


class PolicyStrategy(ReservedNamesStrategy):
    has_expressions = True
    allow_unconditional_update = False
    counts_generation = True

    def default(self, obj: Any) -> None:
        spec: PolicySpec = obj.spec
        if spec.failurePolicy is None:
            spec.failurePolicy = "Fail"
        if spec.matchConstraints is not None:
            default_resources(spec.matchConstraints)


def policy_columns(rules: Column) -> tuple[Column, ...]:
    """Return the table columns; `rules` is the column with the number of the policy's rules."""
    kind = Column(
        "ParamKind",
        lambda policy, now: param_kind(policy.spec),
        description="ParamKind specifies the kind of resources used to parameterize this policy",
    )
    return NAME, rules, kind, AGE


def validate_failure_policy_and_match(spec: PolicySpec) -> FieldErrors:
    """Yield the errors of failurePolicy, paramKind and matchConstraints."""
    yield from validate_optional_one_of(spec.failurePolicy, FAILURE_POLICIES, "spec.failurePolicy")
    if spec.paramKind is not None:
        yield from _validate_param_kind(spec.paramKind, "spec.paramKind")
    if spec.matchConstraints is None:
        yield FieldError.required("spec.matchConstraints")
    else:
        yield from _validate_match_constraints(spec.matchConstraints, "spec.matchConstraints")


def validate_conditions_and_variables(
    spec: PolicySpec, old: PolicySpec | None, compiler: PolicyExpressionCompiler
) -> FieldErrors:
    """Yield the errors of match conditions and variables, and declare the variables in `compiler`. Conditions that have
    not changed are not validated again."""
    is_same = old is not None and (spec.paramKind, spec.matchConditions) == (old.paramKind, old.matchConditions)
    if not is_same:
        environment = partial(policy_environment, has_params=spec.paramKind is not None)
        yield from validate_match_conditions(spec.matchConditions, "spec.matchConditions", environment)
    yield from _validate_variables(spec.variables, "spec.variables", compiler)


def validate_expression(
    compile_expression: Callable[[str], Program], text: str, path: str, *, missing: str = ""
) -> FieldErrors:
    """Yield the error of an expression. `missing` is the message if it is empty."""
    if not text.strip():
        yield FieldError.required(path, missing)
        return
    try:
        compile_expression(text)
    except CelError as error:
        yield expression_error(path, text, error)


def _validate_match_constraints(match_resources: MatchResources, path: str) -> FieldErrors:
    yield from validate_match_resources(match_resources, path)
    if not match_resources.resourceRules:
        yield FieldError.required(f"{path}.resourceRules")


def _validate_param_kind(kind: ParamKind, path: str) -> FieldErrors:
    version_at = f"{path}.apiVersion"
    if not kind.apiVersion:
        yield FieldError.required(version_at)
    elif kind.apiVersion.count("/") > 1:
        yield FieldError.invalid(version_at, kind.apiVersion, f"unexpected GroupVersion string: {kind.apiVersion}")
    else:
        group, _, version = kind.apiVersion.rpartition("/")
        if group and (messages := names.dns1123_subdomain(group)):
            yield FieldError.invalid(version_at, group, ",".join(messages))
        if not version:
            yield FieldError.invalid(version_at, kind.apiVersion, "version must be specified")
        elif messages := names.dns1035_label(version):
            yield FieldError.invalid(version_at, version, ",".join(messages))
    if not kind.kind:
        yield FieldError.required(f"{path}.kind")
    elif messages := names.dns1035_label(kind.kind.lower()):
        start = "may have mixed case, but should otherwise match: "
        yield FieldError.invalid(f"{path}.kind", kind.kind, start + ",".join(messages))


def _validate_variables(
    variables: Sequence[Variable], field_path: str, compiler: PolicyExpressionCompiler
) -> FieldErrors:
    for index, variable in enumerate(variables):
        path = f"{field_path}[{index}]"
        if not variable.name.strip():
            yield FieldError.required(f"{path}.name", "name is not specified")
        elif not _is_identifier(variable.name) or variable.name in RESERVED:
            yield FieldError.invalid(f"{path}.name", variable.name, "must be a valid CEL identifier")
        if not variable.expression.strip():
            yield FieldError.required(f"{path}.expression", "expression is not specified")
            continue
        try:
            compiler.variable(variable.name, variable.expression)
        except CelError as error:
            yield expression_error(f"{path}.expression", variable.expression, error)


def param_kind(spec: PolicySpec) -> str:
    kind = spec.paramKind
    return f"{kind.apiVersion}/{kind.kind}" if kind is not None else cells.UNSET


Binding = ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding
BindingSpec = ValidatingAdmissionPolicyBindingSpec | MutatingAdmissionPolicyBindingSpec

_ACTIONS = ("Deny", "Allow")
_EITHER = "name and selector are mutually exclusive"


def _parameters(binding: Binding, now: float) -> str:
    reference = binding.spec.paramRef
    if reference is None:
        return cells.UNSET
    if reference.name:
        return f"{reference.namespace or '*'}/{reference.name}"
    return gotext.label_selector(reference.selector) if reference.selector is not None else cells.UNSET


class PolicyBindingStrategy(ReservedNamesStrategy):
    allow_unconditional_update = False
    counts_generation = True
    columns = (
        NAME,
        Column(
            "PolicyName",
            lambda binding, now: binding.spec.policyName,
            description="PolicyName indicates the policy definition which the policy binding binded to",
        ),
        Column(
            "ParamRef",
            _parameters,
            description="ParamRef indicates the param resource which sets the configuration param",
        ),
        AGE,
    )

    def default(self, obj: Binding) -> None:
        if obj.spec.matchResources is not None:
            default_resources(obj.spec.matchResources)


def validate_binding_spec(spec: BindingSpec) -> FieldErrors:
    if spec.policyName:
        yield from validate_dns_subdomain(spec.policyName, "spec.policyName")
    if spec.paramRef is not None:
        yield from _validate_param_ref(spec.paramRef, "spec.paramRef")
    if spec.matchResources is not None:
        yield from validate_match_resources(spec.matchResources, "spec.matchResources")


def _validate_param_ref(reference: ParamRef, path: str) -> FieldErrors:
    name, selector = reference.name, reference.selector
    for text in names.path_segment(name):
        yield FieldError.invalid(f"{path}.name", name, text)
    if name and selector is not None:
        yield FieldError.forbidden(f"{path}.name", _EITHER)
    yield from selector_errors(selector, f"{path}.selector")
    if name and selector is not None:
        yield FieldError.forbidden(f"{path}.selector", _EITHER)
    if not name and selector is None:
        yield FieldError.required(path, "one of name or selector must be specified")
    yield from validate_one_of(reference.parameterNotFoundAction or "", _ACTIONS, f"{path}.parameterNotFoundAction")
