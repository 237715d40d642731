"""Parsing of request paths: group, version, resource, namespace, name, subresource. It does not depend on the known
resources."""

from dataclasses import dataclass

NAMESPACE_SUBRESOURCES = ("status", "finalize")
PROXIED = {2: ("nodes",), 4: ("pods", "services")}
"""The resources of legacy proxy paths, by the number of path segments that identify the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePath:
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()
    """The segments after the subresource: the path for a proxy."""
    watch: bool = False
    """Whether the path is the legacy form of a watch, /api/v1/watch/…"""
    in_namespace: bool = False
    """Whether the path contains namespaces/NAME/, even with an empty name."""


def parse(path: str) -> ResourcePath | None:
    """Return the parts of a decoded path below /api/V/ or /apis/G/V/; None for any other path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, parts = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = parts[0] == "watch" and len(parts) > 1
    if parts[0] == "proxy" and not group:
        parts = _modern_proxy(parts[1:]) or parts
    return _below_version(group, version, parts[1:] if watch else parts, watch)


def _modern_proxy(parts: list[str]) -> list[str]:
    """Return the legacy paths proxy/nodes/NAME/… and proxy/namespaces/NS/KIND/NAME/… in their current form, with proxy
    as a subresource. Return an empty list if they are invalid."""
    own = 4 if parts[:1] == ["namespaces"] else 2
    if len(parts) < own or not all(parts[:own]) or parts[own - 2] not in PROXIED[own]:
        return []
    return [*parts[:own], "proxy", *parts[own:]]


def _below_version(group: str, version: str, parts: list[str], watch: bool) -> ResourcePath:
    namespace, in_namespace = "", False
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in NAMESPACE_SUBRESOURCES:
            parts, in_namespace = parts[2:], True
    return ResourcePath(
        group=group,
        version=version,
        plural=parts[0],
        namespace=namespace,
        name=parts[1] if len(parts) > 1 else "",
        subresource=parts[2] if len(parts) > 2 else "",
        rest=tuple(parts[3:]),
        watch=watch,
        in_namespace=in_namespace,
    )
