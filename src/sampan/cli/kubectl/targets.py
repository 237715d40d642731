"""Parse the arguments of a command as resource types and names, and list the objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sampan.cli.failures import CliError
from sampan.cli.kubectl.kinds import ResourceType, ResourceTypes
from sampan.cli.kubectl.session import JSON, ServerError, Session

_SEPARATE = (
    "there is no need to specify a resource type as a separate argument when passing arguments in resource/name form "
    "(e.g. 'kubectl get resource/<resource_name>' instead of 'kubectl get resource resource/<resource_name>'"
)


@dataclass(frozen=True, slots=True)
class ResourceTarget:
    kind: ResourceType
    names: list[str] = field(default_factory=list)
    """Names of objects; empty means all objects of the type."""


def targets(kinds: ResourceTypes, words: Sequence[str]) -> list[ResourceTarget]:
    """Parse arguments of the forms `pods`, `pod a b`, `pods,svc` and `pod/a svc/b`."""
    if any("/" in word for word in words):
        return [_slashed(kinds, word) for word in words]
    types, *names = words
    resources = [kinds.named(word) for word in types.split(",") if word]
    return [ResourceTarget(kind, list(names)) for kind in resources]


def _slashed(kinds: ResourceTypes, word: str) -> ResourceTarget:
    kind, slash, name = word.partition("/")
    if not slash:
        raise CliError(_SEPARATE)
    if not (kind and name) or "/" in name:
        raise CliError("arguments in resource/name form must have a single resource and name")
    return ResourceTarget(kinds.named(kind), [name])


def listed(
    session: Session, kind: ResourceType, namespace: str, query: Mapping[str, str], *, accept: str = JSON
) -> Any:
    """Return the response to a list request. An error includes the resource type and the selectors."""
    try:
        return session.get(kind.collection(namespace), query, accept=accept)
    except ServerError as error:
        if error.error.reason not in ("BadRequest", "NotFound"):
            raise
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        resource = f'"{kind.group}/{kind.version}, Resource={kind.plural}"'
        if not (labels or fields):
            raise error.about(f"Unable to list {resource}") from None
        what = f'Unable to find {resource} that match label selector "{labels}", field selector "{fields}"'
        raise error.about(what) from None
