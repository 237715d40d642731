"""Parsers for the values of the kubelet's flags and fields, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sampan.api.quantity import parse
from sampan.api.types.core_v1 import Taint
from sampan.cli import flags
from sampan.cli.failures import CliError
from sampan.kubelet.agent.config import ShutdownGroup
from sampan.kubelet.agent.image_pull_records import POLICIES

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _list(flag: str, value: Any) -> list[str]:
    words = value.split(",") if isinstance(value, str) else list(value)
    return [word.strip() for word in words if word.strip()]


def _map(flag: str, value: Any, separator: str = "=") -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(key): str(text) for key, text in value.items()}
    pairs = {}
    for word in _list(flag, value):
        key, mark, text = word.partition(separator)
        if not mark:
            raise CliError(f"{flag}: want K{separator}V, not {word!r}")
        pairs[key.strip()] = text.strip()
    return pairs


def _limits(flag: str, value: Any) -> dict[str, str]:
    """Parse eviction thresholds of the form memory.available<100Mi,…"""
    return _map(flag, value, "<") if isinstance(value, str) else _map(flag, value)


def _headers(flag: str, value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return _map(flag, value, ":")
    return {key: text if isinstance(text, str) else ",".join(text) for key, text in value.items()}


def _taints(flag: str, value: Any) -> list[Taint]:
    if not isinstance(value, str):
        return [taint if isinstance(taint, Taint) else Taint(**taint) for taint in value]
    return [_taint(flag, word) for word in _list(flag, value)]


def _taint(flag: str, text: str) -> Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in _EFFECTS:
        raise CliError(f"{flag}: want K=V:EFFECT with one of {', '.join(_EFFECTS)}, not {text!r}")
    return Taint(key=key, value=value, effect=effect)


def _image_policy(flag: str, value: Any) -> str:
    if value not in POLICIES:
        raise ValueError
    return str(value)


def _groups(flag: str, value: Any) -> list[ShutdownGroup]:
    return [ShutdownGroup(int(group["priority"]), float(group["shutdownGracePeriodSeconds"])) for group in value]


def _time(flag: str, value: Any) -> float:
    return flags.duration_s(flag, str(value))


def _size(flag: str, value: Any) -> int:
    return int(parse(str(value)).value())


def _switch(flag: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


READERS: dict[str, Callable[[str, Any], Any]] = {
    "text": lambda flag, value: str(value),
    "int": lambda flag, value: int(value),
    "bool": _switch,
    "list": _list,
    "map": _map,
    "limits": _limits,
    "headers": _headers,
    "taints": _taints,
    "groups": _groups,
    "images": _image_policy,
    "time": _time,
    "size": _size,
}
