"""Validation of container restart policies, restart rules and resize policies."""

from collections.abc import Sequence

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import ContainerResizePolicy, ContainerRestartRule, PodSpec
from sampan.apiserver.registry.podspec.everywhere import AnyContainer
from sampan.apiserver.registry.podspec.formats import Faults, one_of, optional_one_of

_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_RESIZED = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_POLICY_MISSING = "must specify restartPolicy when restart rules are used"
_RULES_MOST = 20
_CODES_MOST = 255


def restart_faults(container: AnyContainer, at: str) -> Faults:
    policy, rules = container.restartPolicy, container.restartPolicyRules
    if policy is None:
        if rules:
            yield FieldError.required(f"{at}.restartPolicy", _POLICY_MISSING)
    else:
        yield from optional_one_of(policy, _POLICIES, f"{at}.restartPolicy")
    if len(rules) > _RULES_MOST:
        yield FieldError.too_many(f"{at}.restartPolicyRules", len(rules), _RULES_MOST)
    for index, rule in enumerate(rules):
        yield from _rule(rule, f"{at}.restartPolicyRules[{index}]")


def init_restart_faults(container: AnyContainer, at: str) -> Faults:
    """Yield the errors of an init container; restart rules without a restartPolicy are not validated further."""
    if container.restartPolicy is not None:
        yield from restart_faults(container, at)
    elif container.restartPolicyRules:
        yield FieldError.required(f"{at}.restartPolicy", _POLICY_MISSING)


def _rule(rule: ContainerRestartRule, at: str) -> Faults:
    yield from optional_one_of(rule.action, _ACTIONS, f"{at}.action")
    codes = rule.exitCodes
    if codes is None:
        yield FieldError.required(f"{at}.exitCodes", "must be specified")
        return
    yield from optional_one_of(codes.operator, _OPERATORS, f"{at}.exitCodes.operator")
    if len(codes.values) > _CODES_MOST:
        yield FieldError.too_many(f"{at}.exitCodes.values", len(codes.values), _CODES_MOST)


def resize_policy_faults(policies: Sequence[ContainerResizePolicy], restart_policy: str, at: str) -> Faults:
    resources: set[str] = set()
    for index, policy in enumerate(policies):
        if policy.resourceName in resources:
            yield FieldError.duplicate(f"{at}[{index}]", policy.resourceName)
        resources.add(policy.resourceName)
        yield from one_of(policy.resourceName, _RESIZED, at)
        yield from one_of(policy.restartPolicy, _RESIZE_POLICIES, at)
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
    containers = [*(spec.containers or ()), *spec.initContainers]
    return any(
        rule.action == "RestartAllContainers" for container in containers for rule in container.restartPolicyRules
    )
