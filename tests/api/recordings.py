"""The recorded responses of a real server, with fixed values in place of those that differ between runs."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PLACEHOLDER = re.compile(r"<[A-Za-z]+>")
MICRO_TIMES = {"eventTime", "acquireTime", "renewTime", "lastObservedTime"}
NUMBERS = {"<nodePort>": 30001, "<healthCheckNodePort>": 30002}
TIME = re.compile(r"<(time|\w*Time|\w*Timestamp)>")


@dataclass(frozen=True)
class RecordedResponse:
    scenario: str
    step: int
    request: str
    status: int
    body: Any
    ignored: tuple[str, ...]
    """Dotted paths that the recording leaves out of the body; `*` stands for every key or index."""

    def without_ignored_paths(self, value: Any) -> Any:
        """Return a copy of a body without the ignored paths."""
        copied = json.loads(json.dumps(value))
        for path in self.ignored:
            _drop(copied, path)
        return copied


def recorded_responses(reference_dir: Path, scenario_pattern: str = "*") -> Iterator[RecordedResponse]:
    """Yield every recorded response of the scenarios whose names match a shell pattern, in order."""
    for path in sorted((reference_dir / "recordings").glob(f"{scenario_pattern}.json")):
        scenario = yaml.load((reference_dir / f"recordings/{path.stem}.yaml").read_text(), Loader=yaml.CSafeLoader)
        for step in json.loads(path.read_text()):
            ignored = tuple(scenario["steps"][step["step"]].get("ignore") or ())
            yield RecordedResponse(
                path.stem, step["step"], step["request"], step["status"], replace_placeholders(step["body"]), ignored
            )


def replace_placeholders(value: Any, key: str = "") -> Any:
    """Return the value with placeholders replaced where a type would reject them."""
    if isinstance(value, dict):
        return {k: replace_placeholders(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [replace_placeholders(v, key) for v in value]
    if not isinstance(value, str) or not PLACEHOLDER.fullmatch(value):
        return value
    if value in NUMBERS:
        return NUMBERS[value]
    if TIME.fullmatch(value) and key != "cells":
        return "2026-01-02T03:04:05.000006Z" if key in MICRO_TIMES else "2026-01-02T03:04:05Z"
    return value


def _drop(value: Any, path: str) -> None:
    if not isinstance(value, dict | list):
        return
    head, _, rest = path.partition(".")
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value))) if value else []
    for key in keys:
        if head in ("*", str(key)):
            if rest:
                _drop(value[key], rest)
                if value[key] == {} and isinstance(value, dict):  # it contained only the ignored path
                    value.pop(key)
            elif isinstance(value, dict):
                value.pop(key)
