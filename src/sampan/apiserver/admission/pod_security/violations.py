"""The result of a check, and the wording that checks share. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from sampan.api.semantics.pods import AnyContainer, all_containers
from sampan.api.types.core_v1 import PodSpec
from sampan.api.types.meta_v1 import ObjectMeta


class Violation(NamedTuple):
    reason: str
    detail: str


Check = Callable[[ObjectMeta, PodSpec], Violation | None]


def names_where(spec: PodSpec, is_bad: Callable[[AnyContainer], bool]) -> list[str]:
    return [container.name for container in all_containers(spec) if is_bad(container)]


def join_quoted(words: Collection[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def pluralize(word: str, things: Collection[object]) -> str:
    return word if len(things) == 1 else f"{word}s"


def format_names(kind: str, names: Sequence[str]) -> str:
    """Return a list such as `containers "a", "b"`."""
    return f"{pluralize(kind, names)} {join_quoted(names)}"


def use_or_uses(names: Collection[str]) -> str:
    return "uses" if len(names) == 1 else "use"


def format_setters(is_pod: bool, containers: Sequence[str]) -> str:
    """Return who sets a field: the pod, containers, or both; "" if none does."""
    parts = ["pod"] if is_pod else []
    if containers:
        parts.append(format_names("container", containers))
    return " and ".join(parts)


def describe_violations(violations: Sequence[Violation]) -> str:
    return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in violations)


def is_windows(spec: PodSpec) -> bool:
    return spec.os is not None and spec.os.name == "windows"


def has_user_namespace(spec: PodSpec) -> bool:
    """Whether the pod has its own user namespace."""
    return spec.hostUsers is False
