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


def validate_probes_and_lifecycle(container: AnyContainer, grace_s: int | None, path: str) -> FieldErrors:
    """Yield the errors of the lifecycle hooks and probes of a container."""
    if container.lifecycle is not None:
        yield from _validate_lifecycle(container.lifecycle, grace_s, f"{path}.lifecycle")
    if container.livenessProbe is not None:
        yield from _validate_liveness_or_startup_probe(container.livenessProbe, f"{path}.livenessProbe")
    if container.readinessProbe is not None:
        yield from _validate_readiness_probe(container.readinessProbe, f"{path}.readinessProbe")
    if container.startupProbe is not None:
        yield from _validate_liveness_or_startup_probe(container.startupProbe, f"{path}.startupProbe")


def _validate_liveness_or_startup_probe(probe: Probe, path: str) -> FieldErrors:
    """Validate a liveness or startup probe, whose successThreshold must be 1."""
    yield from _validate_probe(probe, path)
    if probe.successThreshold != 1:
        yield FieldError.invalid(f"{path}.successThreshold", probe.successThreshold, "must be 1")


def _validate_readiness_probe(probe: Probe, path: str) -> FieldErrors:
    yield from _validate_probe(probe, path)
    grace_s = probe.terminationGracePeriodSeconds
    if grace_s is not None:
        yield FieldError.invalid(
            f"{path}.terminationGracePeriodSeconds", grace_s, "must not be set for readinessProbes"
        )


def _validate_probe(probe: Probe, path: str) -> FieldErrors:
    yield from _validate_handler(probe, None, path)
    for name in _NUMBERS:
        if getattr(probe, name) < 0:
            yield from validate_non_negative(getattr(probe, name), f"{path}.{name}")
    grace_s = probe.terminationGracePeriodSeconds
    if grace_s is not None and grace_s <= 0:
        yield FieldError.invalid(f"{path}.terminationGracePeriodSeconds", grace_s, "must be greater than 0")


def _validate_lifecycle(lifecycle: Lifecycle, grace_s: int | None, path: str) -> FieldErrors:
    if lifecycle.postStart is not None:
        yield from _validate_handler(lifecycle.postStart, grace_s, f"{path}.postStart")
    if lifecycle.preStop is not None:
        yield from _validate_handler(lifecycle.preStop, grace_s, f"{path}.preStop")


_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def _validate_handler(handler: Probe | LifecycleHandler, grace_s: int | None, path: str) -> FieldErrors:
    handlers = [name for name in _HANDLERS if getattr(handler, name, None) is not None]
    if not handlers:
        yield FieldError.required(path, "must specify a handler type")
        return
    yield from _validate_action(handler, handlers[0], grace_s, f"{path}.{handlers[0]}")
    for name in handlers[1:]:
        yield FieldError.forbidden(f"{path}.{name}", "may not specify more than 1 handler type")


def _validate_action(handler: Probe | LifecycleHandler, name: str, grace_s: int | None, path: str) -> FieldErrors:
    action = getattr(handler, name)
    match name:
        case "exec":
            if not action.command:
                yield FieldError.required(f"{path}.command")
        case "httpGet":
            yield from _validate_http_get(action, path)
        case "tcpSocket":
            yield from validate_port_or_name(action.port, f"{path}.port")
        case "grpc":
            yield from validate_port_number(action.port, f"{path}.port")
        case "sleep":
            yield from _validate_sleep(action, grace_s, path)


def _validate_http_get(action: HTTPGetAction, path: str) -> FieldErrors:
    if not action.path:
        yield FieldError.required(f"{path}.path")
    yield from validate_port_or_name(action.port, f"{path}.port")
    if action.scheme not in _SCHEMES:
        yield FieldError.not_supported(f"{path}.scheme", action.scheme, _SCHEMES)
    for header in action.httpHeaders:
        for text in names.http_header_name(header.name):
            yield FieldError.invalid(f"{path}.httpHeaders", header.name, text)


def _validate_sleep(action: SleepAction, grace_s: int | None, path: str) -> FieldErrors:
    if grace_s is not None and not 0 <= action.seconds <= grace_s:
        text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
        yield FieldError.invalid(path, action.seconds, text)


_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_RESIZED = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_POLICY_MISSING = "must specify restartPolicy when restart rules are used"
_MAX_RESTART_RULES = 20
_MAX_EXIT_CODES = 255


def validate_container_restart_policy(container: AnyContainer, path: str) -> FieldErrors:
    policy, rules = container.restartPolicy, container.restartPolicyRules
    if policy is None:
        if rules:
            yield FieldError.required(f"{path}.restartPolicy", _POLICY_MISSING)
    else:
        yield from validate_optional_one_of(policy, _POLICIES, f"{path}.restartPolicy")
    if len(rules) > _MAX_RESTART_RULES:
        yield FieldError.too_many(f"{path}.restartPolicyRules", len(rules), _MAX_RESTART_RULES)
    for index, rule in enumerate(rules):
        yield from _validate_restart_rule(rule, f"{path}.restartPolicyRules[{index}]")


def validate_init_container_restart_policy(container: AnyContainer, path: str) -> FieldErrors:
    """Yield the errors of an init container; restart rules without a restartPolicy are not validated further."""
    if container.restartPolicy is not None:
        yield from validate_container_restart_policy(container, path)
    elif container.restartPolicyRules:
        yield FieldError.required(f"{path}.restartPolicy", _POLICY_MISSING)


def _validate_restart_rule(rule: ContainerRestartRule, path: str) -> FieldErrors:
    yield from validate_optional_one_of(rule.action, _ACTIONS, f"{path}.action")
    codes = rule.exitCodes
    if codes is None:
        yield FieldError.required(f"{path}.exitCodes", "must be specified")
        return
    yield from validate_optional_one_of(codes.operator, _OPERATORS, f"{path}.exitCodes.operator")
    if len(codes.values) > _MAX_EXIT_CODES:
        yield FieldError.too_many(f"{path}.exitCodes.values", len(codes.values), _MAX_EXIT_CODES)


def validate_resize_policy(policies: Sequence[ContainerResizePolicy], restart_policy: str, path: str) -> FieldErrors:
    resources: set[str] = set()
    for index, policy in enumerate(policies):
        if policy.resourceName in resources:
            yield FieldError.duplicate(f"{path}[{index}]", policy.resourceName)
        resources.add(policy.resourceName)
        yield from validate_one_of(policy.resourceName, _RESIZED, path)
        yield from validate_one_of(policy.restartPolicy, _RESIZE_POLICIES, path)
        if restart_policy == "Never" and policy.restartPolicy != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            yield FieldError.invalid(path, policy.restartPolicy, text)


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
