"""What a command is about: the words after it, as kinds and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sampan.cli.failures import CliError
from sampan.cli.kubectl.kinds import Kind, Kinds


@dataclass(frozen=True, slots=True)
class Target:
    kind: Kind
    names: list[str] = field(default_factory=list)
    """Empty: all of the kind."""


def targets(kinds: Kinds, words: Sequence[str], *, action: str) -> list[Target]:
    """`pods`, `pod a b`, `pods,svc`, `pod/a svc/b`."""
    if not words:
        raise CliError(
            f"You must specify the type of resource to {action}: TYPE, TYPE NAME or TYPE/NAME; "
            "`kubectl api-resources` lists the types"
        )
    if any("/" in word for word in words):
        return [_slashed(kinds, word) for word in words]
    types, *names = words
    found = [kinds.named(word) for word in types.split(",") if word]
    return [Target(kind, list(names)) for kind in found]


def _slashed(kinds: Kinds, word: str) -> Target:
    kind, slash, name = word.partition("/")
    if not (slash and kind and name) or "/" in name:
        raise CliError(f"arguments in resource/name form must have a single resource and name: {word!r}")
    return Target(kinds.named(kind), [name])
