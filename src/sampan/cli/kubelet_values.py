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


def _list(flag: str, said: Any) -> list[str]:
    words = said.split(",") if isinstance(said, str) else list(said)
    return [word.strip() for word in words if word.strip()]


def _map(flag: str, said: Any, separator: str = "=") -> dict[str, str]:
    if isinstance(said, Mapping):
        return {str(key): str(value) for key, value in said.items()}
    pairs = {}
    for word in _list(flag, said):
        key, mark, value = word.partition(separator)
        if not mark:
            raise CliError(f"{flag}: want K{separator}V, not {word!r}")
        pairs[key.strip()] = value.strip()
    return pairs


def _limits(flag: str, said: Any) -> dict[str, str]:
    """Parse eviction thresholds of the form memory.available<100Mi,…"""
    return _map(flag, said, "<") if isinstance(said, str) else _map(flag, said)


def _headers(flag: str, said: Any) -> dict[str, str]:
    if isinstance(said, str):
        return _map(flag, said, ":")
    return {key: value if isinstance(value, str) else ",".join(value) for key, value in said.items()}


def _taints(flag: str, said: Any) -> list[Taint]:
    if not isinstance(said, str):
        return [taint if isinstance(taint, Taint) else Taint(**taint) for taint in said]
    return [_taint(flag, word) for word in _list(flag, said)]


def _taint(flag: str, text: str) -> Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in _EFFECTS:
        raise CliError(f"{flag}: want K=V:EFFECT with one of {', '.join(_EFFECTS)}, not {text!r}")
    return Taint(key=key, value=value, effect=effect)


def _image_policy(flag: str, said: Any) -> str:
    if said not in POLICIES:
        raise ValueError
    return str(said)


def _groups(flag: str, said: Any) -> list[ShutdownGroup]:
    return [ShutdownGroup(int(group["priority"]), float(group["shutdownGracePeriodSeconds"])) for group in said]


def _time(flag: str, said: Any) -> float:
    return flags.duration_s(flag, str(said))


def _size(flag: str, said: Any) -> int:
    return int(parse(str(said)).value())


def _switch(flag: str, said: Any) -> bool:
    if not isinstance(said, bool):
        raise TypeError
    return said


READERS: dict[str, Callable[[str, Any], Any]] = {
    "text": lambda flag, said: str(said),
    "int": lambda flag, said: int(said),
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
