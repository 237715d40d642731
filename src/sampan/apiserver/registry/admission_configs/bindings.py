"""The common behavior of ValidatingAdmissionPolicyBindings and MutatingAdmissionPolicyBindings."""

from sampan.api import gotext, names
from sampan.api.faults import FieldError
from sampan.api.label_selector import selector_faults
from sampan.api.types.admissionregistration_v1 import (
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec,
    ParamRef,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
)
from sampan.apiserver.registry.admission_configs.matching import default_resources, validate_match_resources
from sampan.apiserver.registry.podspec.formats import (
    FieldErrors,
    validate_dns_subdomain,
    validate_one_of,
    validate_required,
)
from sampan.apiserver.registry.strategy import Column, Strategy
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

Binding = ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding
Spec = ValidatingAdmissionPolicyBindingSpec | MutatingAdmissionPolicyBindingSpec

_ACTIONS = ("Deny", "Allow")
_EITHER = "name and selector are mutually exclusive"


def _parameters(binding: Binding, now: float) -> str:
    reference = binding.spec.paramRef
    if reference is None:
        return cells.UNSET
    if reference.name:
        return f"{reference.namespace or '*'}/{reference.name}"
    return _go_selector(reference) if reference.selector is not None else cells.UNSET


def _go_selector(reference: ParamRef) -> str:
    """Return the selector as Go prints it."""
    selector = reference.selector
    assert selector is not None
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.matchLabels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{term.key},Operator:{term.operator},Values:{gotext.value(list(term.values))},}},"
        for term in selector.matchExpressions
    )
    start = f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}}"
    return f"{start},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"


class BindingStrategy(Strategy):
    allow_unconditional_update = False
    counts_generation = True
    validates_whole = True
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


def validate_binding_spec(spec: Spec) -> FieldErrors:
    yield from (
        validate_dns_subdomain(spec.policyName, "spec.policyName")
        if spec.policyName
        else validate_required("", "spec.policyName")
    )
    if spec.paramRef is not None:
        yield from _validate_param_ref(spec.paramRef, "spec.paramRef")
    if spec.matchResources is not None:
        yield from validate_match_resources(spec.matchResources, "spec.matchResources")


def _validate_param_ref(reference: ParamRef, at: str) -> FieldErrors:
    name, selector = reference.name, reference.selector
    for text in names.path_segment(name):
        yield FieldError.invalid(f"{at}.name", name, text)
    if name and selector is not None:
        yield FieldError.forbidden(f"{at}.name", _EITHER)
    yield from selector_faults(selector, f"{at}.selector")
    if name and selector is not None:
        yield FieldError.forbidden(f"{at}.selector", _EITHER)
    if not name and selector is None:
        yield FieldError.required(at, "one of name or selector must be specified")
    yield from validate_one_of(reference.parameterNotFoundAction or "", _ACTIONS, f"{at}.parameterNotFoundAction")
