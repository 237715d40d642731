"""What a command is about: the words after it, as kinds and names; and the objects they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sampan.cli.failures import CliError
from sampan.cli.kubectl.kinds import Kind, Kinds
from sampan.cli.kubectl.session import JSON, ServerError, Session

_SEPARATE = (
    "there is no need to specify a resource type as a separate argument when passing arguments in resource/name form "
    "(e.g. 'kubectl get resource/<resource_name>' instead of 'kubectl get resource resource/<resource_name>'"
)


@dataclass(frozen=True, slots=True)
class Target:
    kind: Kind
    names: list[str] = field(default_factory=list)
    """Empty: all of the kind."""


def targets(kinds: Kinds, words: Sequence[str]) -> list[Target]:
    """`pods`, `pod a b`, `pods,svc`, `pod/a svc/b`."""
    if any("/" in word for word in words):
        return [_slashed(kinds, word) for word in words]
    types, *names = words
    found = [kinds.named(word) for word in types.split(",") if word]
    return [Target(kind, list(names)) for kind in found]


def _slashed(kinds: Kinds, word: str) -> Target:
    kind, slash, name = word.partition("/")
    if not slash:
        raise CliError(_SEPARATE)
    if not (kind and name) or "/" in name:
        raise CliError("arguments in resource/name form must have a single resource and name")
    return Target(kinds.named(kind), [name])


def listed(session: Session, kind: Kind, namespace: str, query: Mapping[str, str], *, accept: str = JSON) -> Any:
    """The answer to a list; a refusal says what was looked for."""
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
