"""The default requests and limits of a limit range, and the annotation that records them. Pure."""

from collections.abc import Mapping

from sampan.api.types.core_v1 import Container, LimitRange, Pod

ANNOTATION = "kubernetes.io/limit-ranger"


def fill_in(pod: Pod, limit_range: LimitRange) -> None:
    requests, limits = _defaults(limit_range)
    if not requests and not limits:
        return
    notes = []
    for kind, containers in (("container", pod.spec.containers or ()), ("init container", pod.spec.initContainers)):
        for container in containers:
            notes += _filled(kind, container, requests, limits)
    if notes:
        pod.metadata.annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _defaults(limit_range: LimitRange) -> tuple[dict[str, str], dict[str, str]]:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for item in limit_range.spec.limits or ():
        if item.type == "Container":
            requests |= item.defaultRequest
            limits |= item.default
    return requests, limits


def _filled(kind: str, container: Container, requests: Mapping[str, str], limits: Mapping[str, str]) -> list[str]:
    notes = []
    own = container.resources
    for word, defaults, amounts in (("request", requests, own.requests), ("limit", limits, own.limits)):
        missing = sorted(defaults.keys() - amounts.keys())
        amounts.update({name: defaults[name] for name in missing})
        if missing:
            notes.append(f"{', '.join(missing)} {word} for {kind} {container.name}")
    return notes
