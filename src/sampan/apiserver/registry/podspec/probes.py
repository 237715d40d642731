"""Validation of probes and lifecycle hooks."""

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import HTTPGetAction, Lifecycle, LifecycleHandler, Probe, SleepAction
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_non_negative
from sampan.apiserver.registry.podspec.ports import validate_port_number, validate_port_or_name

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
