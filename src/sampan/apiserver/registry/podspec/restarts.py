"""Validation of container restart policies, restart rules and resize policies."""

from collections.abc import Sequence

from sampan.api.faults import FieldError
from sampan.api.semantics.pods import AnyContainer, init_and_main_containers
from sampan.api.types.core_v1 import ContainerResizePolicy, ContainerRestartRule, PodSpec
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_one_of, validate_optional_one_of

_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_RESIZED = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_POLICY_MISSING = "must specify restartPolicy when restart rules are used"
_RULES_MOST = 20
_CODES_MOST = 255


def validate_container_restart_policy(container: AnyContainer, at: str) -> FieldErrors:
    policy, rules = container.restartPolicy, container.restartPolicyRules
    if policy is None:
        if rules:
            yield FieldError.required(f"{at}.restartPolicy", _POLICY_MISSING)
    else:
        yield from validate_optional_one_of(policy, _POLICIES, f"{at}.restartPolicy")
    if len(rules) > _RULES_MOST:
        yield FieldError.too_many(f"{at}.restartPolicyRules", len(rules), _RULES_MOST)
    for index, rule in enumerate(rules):
        yield from _validate_restart_rule(rule, f"{at}.restartPolicyRules[{index}]")


def validate_init_container_restart_policy(container: AnyContainer, at: str) -> FieldErrors:
    """Yield the errors of an init container; restart rules without a restartPolicy are not validated further."""
    if container.restartPolicy is not None:
        yield from validate_container_restart_policy(container, at)
    elif container.restartPolicyRules:
        yield FieldError.required(f"{at}.restartPolicy", _POLICY_MISSING)


def _validate_restart_rule(rule: ContainerRestartRule, at: str) -> FieldErrors:
    yield from validate_optional_one_of(rule.action, _ACTIONS, f"{at}.action")
    codes = rule.exitCodes
    if codes is None:
        yield FieldError.required(f"{at}.exitCodes", "must be specified")
        return
    yield from validate_optional_one_of(codes.operator, _OPERATORS, f"{at}.exitCodes.operator")
    if len(codes.values) > _CODES_MOST:
        yield FieldError.too_many(f"{at}.exitCodes.values", len(codes.values), _CODES_MOST)


def validate_resize_policy(policies: Sequence[ContainerResizePolicy], restart_policy: str, at: str) -> FieldErrors:
    resources: set[str] = set()
    for index, policy in enumerate(policies):
        if policy.resourceName in resources:
            yield FieldError.duplicate(f"{at}[{index}]", policy.resourceName)
        resources.add(policy.resourceName)
        yield from validate_one_of(policy.resourceName, _RESIZED, at)
        yield from validate_one_of(policy.restartPolicy, _RESIZE_POLICIES, at)
        if restart_policy == "Never" and policy.restartPolicy != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            yield FieldError.invalid(at, policy.restartPolicy, text)


def may_restart(container: AnyContainer, spec: PodSpec, exit_code: int) -> bool:
    """Whether a container that terminated with this exit code is restarted."""
    for rule in container.restartPolicyRules:
        if _applies(rule, exit_code):
            return rule.action in _ACTIONS
    policy = container.restartPolicy or spec.restartPolicy
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _applies(rule: ContainerRestartRule, exit_code: int) -> bool:
    if rule.exitCodes is None:
        return False
    is_listed = exit_code in rule.exitCodes.values
    return is_listed if rule.exitCodes.operator == "In" else not is_listed


def may_all_restart(spec: PodSpec) -> bool:
    """Whether the exit of one container can restart all containers."""
    containers = init_and_main_containers(spec)
    return any(
        rule.action == "RestartAllContainers" for container in containers for rule in container.restartPolicyRules
    )
