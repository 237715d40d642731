"""Validation of probes, lifecycle handlers, restart policies and resize policies of containers."""

from collections.abc import Sequence

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.semantics.pods import AnyContainer, init_and_main_containers
from sampan.api.types.core_v1 import (
    ContainerResizePolicy,
    ContainerRestartRule,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    PodSpec,
    Probe,
    SleepAction,
)
from sampan.apiserver.registry.podspec.ports import validate_port_number, validate_port_or_name
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_non_negative,
    validate_one_of,
    validate_optional_one_of,
)

_SCHEMES = ("HTTP", "HTTPS")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def validate_probes_and_lifecycle(container: AnyContainer, grace_s: int | None, at: str) -> FieldErrors:
    """Yield the errors of the lifecycle hooks and probes of a container."""
    if container.lifecycle is not None:
        yield from _validate_lifecycle(container.lifecycle, grace_s, f"{at}.lifecycle")
    if container.livenessProbe is not None:
        yield from _validate_liveness_or_startup_probe(container.livenessProbe, f"{at}.livenessProbe")
    if container.readinessProbe is not None:
        yield from _validate_readiness_probe(container.readinessProbe, f"{at}.readinessProbe")
    if container.startupProbe is not None:
        yield from _validate_liveness_or_startup_probe(container.startupProbe, f"{at}.startupProbe")


def _validate_liveness_or_startup_probe(probe: Probe, at: str) -> FieldErrors:
    """Validate a liveness or startup probe, whose successThreshold must be 1."""
    yield from _validate_probe(probe, at)
    if probe.successThreshold != 1:
        yield FieldError.invalid(f"{at}.successThreshold", probe.successThreshold, "must be 1")


def _validate_readiness_probe(probe: Probe, at: str) -> FieldErrors:
    yield from _validate_probe(probe, at)
    grace_s = probe.terminationGracePeriodSeconds
    if grace_s is not None:
        yield FieldError.invalid(f"{at}.terminationGracePeriodSeconds", grace_s, "must not be set for readinessProbes")


def _validate_probe(probe: Probe, at: str) -> FieldErrors:
    yield from _validate_handler(probe, None, at)
    for name in _NUMBERS:
        if getattr(probe, name) < 0:
            yield from validate_non_negative(getattr(probe, name), f"{at}.{name}")
    grace_s = probe.terminationGracePeriodSeconds
    if grace_s is not None and grace_s <= 0:
        yield FieldError.invalid(f"{at}.terminationGracePeriodSeconds", grace_s, "must be greater than 0")


def _validate_lifecycle(lifecycle: Lifecycle, grace_s: int | None, at: str) -> FieldErrors:
    if lifecycle.postStart is not None:
        yield from _validate_handler(lifecycle.postStart, grace_s, f"{at}.postStart")
    if lifecycle.preStop is not None:
        yield from _validate_handler(lifecycle.preStop, grace_s, f"{at}.preStop")


_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def _validate_handler(handler: Probe | LifecycleHandler, grace_s: int | None, at: str) -> FieldErrors:
    handlers = [name for name in _HANDLERS if getattr(handler, name, None) is not None]
    if not handlers:
        yield FieldError.required(at, "must specify a handler type")
        return
    yield from _validate_action(handler, handlers[0], grace_s, f"{at}.{handlers[0]}")
    for name in handlers[1:]:
        yield FieldError.forbidden(f"{at}.{name}", "may not specify more than 1 handler type")


def _validate_action(handler: Probe | LifecycleHandler, name: str, grace_s: int | None, at: str) -> FieldErrors:
    action = getattr(handler, name)
    match name:
        case "exec":
            if not action.command:
                yield FieldError.required(f"{at}.command")
        case "httpGet":
            yield from _validate_http_get(action, at)
        case "tcpSocket":
            yield from validate_port_or_name(action.port, f"{at}.port")
        case "grpc":
            yield from validate_port_number(action.port, f"{at}.port")
        case "sleep":
            yield from _validate_sleep(action, grace_s, at)


def _validate_http_get(action: HTTPGetAction, at: str) -> FieldErrors:
    if not action.path:
        yield FieldError.required(f"{at}.path")
    yield from validate_port_or_name(action.port, f"{at}.port")
    if action.scheme not in _SCHEMES:
        yield FieldError.not_supported(f"{at}.scheme", action.scheme, _SCHEMES)
    for header in action.httpHeaders:
        for text in names.http_header_name(header.name):
            yield FieldError.invalid(f"{at}.httpHeaders", header.name, text)


def _validate_sleep(action: SleepAction, grace_s: int | None, at: str) -> FieldErrors:
    if grace_s is not None and not 0 <= action.seconds <= grace_s:
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
        yield FieldError.invalid(at, action.seconds, text)


_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_RESIZED = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_POLICY_MISSING = "must specify restartPolicy when restart rules are used"
_MAX_RESTART_RULES = 20
_MAX_EXIT_CODES = 255


def validate_container_restart_policy(container: AnyContainer, at: str) -> FieldErrors:
    policy, rules = container.restartPolicy, container.restartPolicyRules
    if policy is None:
        if rules:
            yield FieldError.required(f"{at}.restartPolicy", _POLICY_MISSING)
    else:
        yield from validate_optional_one_of(policy, _POLICIES, f"{at}.restartPolicy")
    if len(rules) > _MAX_RESTART_RULES:
        yield FieldError.too_many(f"{at}.restartPolicyRules", len(rules), _MAX_RESTART_RULES)
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
    if len(codes.values) > _MAX_EXIT_CODES:
        yield FieldError.too_many(f"{at}.exitCodes.values", len(codes.values), _MAX_EXIT_CODES)


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
