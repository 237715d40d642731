"""Parsers for the values of the kubelet's flags and configuration fields: text of a flag, or a value of YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.api.types.core_v1 import Taint
from sampan.api.values.quantity import parse
from sampan.cli.flags import parsers
from sampan.kubelet.agent.config import ShutdownGroup
from sampan.kubelet.agent.image_pull_records import POLICIES
from sampan.machinery.cli_errors import CliError

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def words(flag: str, value: Any) -> list[str]:
    parts = value.split(",") if isinstance(value, str) else list(value)
    return [part.strip() for part in parts if part.strip()]


def pairs(flag: str, value: Any, separator: str = "=") -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(key): str(text) for key, text in value.items()}
    parsed = {}
    for word in words(flag, value):
        key, mark, text = word.partition(separator)
        if not mark:
            raise CliError(f"{flag}: want K{separator}V, not {word!r}")
        parsed[key.strip()] = text.strip()
    return parsed


def thresholds(flag: str, value: Any) -> dict[str, str]:
    """Parse eviction thresholds of the form memory.available<100Mi,…"""
    return pairs(flag, value, "<") if isinstance(value, str) else pairs(flag, value)


def headers(flag: str, value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return pairs(flag, value, ":")
    return {key: text if isinstance(text, str) else ",".join(text) for key, text in value.items()}


def taints(flag: str, value: Any) -> list[Taint]:
    if not isinstance(value, str):
        return [taint if isinstance(taint, Taint) else Taint(**taint) for taint in value]
    return [_taint(flag, word) for word in words(flag, value)]


def _taint(flag: str, text: str) -> Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in _EFFECTS:
        raise CliError(f"{flag}: want K=V:EFFECT with one of {', '.join(_EFFECTS)}, not {text!r}")
    return Taint(key=key, value=value, effect=effect)


def image_policy(flag: str, value: Any) -> str:
    if value not in POLICIES:
        raise ValueError
    return str(value)


def shutdown_groups(flag: str, value: Any) -> list[ShutdownGroup]:
    return [ShutdownGroup(int(group["priority"]), float(group["shutdownGracePeriodSeconds"])) for group in value]


def seconds(flag: str, value: Any) -> float:
    return parsers.duration_s(flag, str(value))


def size(flag: str, value: Any) -> int:
    return int(parse(str(value)).value())


def switch(flag: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def switches(flag: str, value: Any) -> dict[str, bool]:
    """Parse `NAME=true,NAME=false`, or take the mapping of a configuration file."""
    if not isinstance(value, Mapping):
        return parsers.switches(flag, str(value))
    if not all(isinstance(state, bool) for state in value.values()):
        raise TypeError
    return dict(value)


def text(flag: str, value: Any) -> str:
    return str(value)


def optional_float(flag: str, value: Any) -> float | None:
    return None if value is None else float(value)


def number(flag: str, value: Any) -> int:
    return int(value)
