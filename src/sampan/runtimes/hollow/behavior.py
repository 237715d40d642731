"""What a hollow container does: how long it takes to pull, start, become ready, run and stop, and how it exits.

It is set by stages and by annotations of the pod, `hollow.sampan.dev/FIELD` for all containers or
`hollow.sampan.dev/FIELD.CONTAINER` for one. A duration is `5` (seconds), `5s`, `1m30s`, `forever`, or a range
`5s..10s`, from which a value is picked that depends only on the seed, so that it is the same on each evaluation.

A stage file defines the behavior of pods by selectors:

    stages:
    - name: web servers fall over now and then
      match: {namespace: default, labels: app=web, container: main, node: node-3}
      run: 1m..5m
      exit-code: 1
      ready: 2s

If several stages match, later ones override earlier ones; annotations of the pod override all stages.
"""

import difflib
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from sampan.api.limits import HOLLOW_ANNOTATION_ERRORS, HOLLOW_VALUE_CHARACTERS
from sampan.api.selectors import labels
from sampan.api.semantics.pods import is_sidecar
from sampan.api.types.core_v1 import Container, Pod
from sampan.api.values import durations, quantity
from sampan.machinery.config_file import ConfigFileError, read_config_file

PREFIX = "hollow.sampan.dev/"
FOREVER = float("inf")
_SIGTERM = 143
_SHOWN_CONTAINERS = 10
_MATCH = ("namespace", "labels", "container", "node")


class BehaviorError(ValueError):
    """A value of an annotation or of a stage file cannot be parsed."""


@dataclass(frozen=True, slots=True)
class DurationRange:
    """A duration or a range of durations."""

    min_s: float
    max_s: float

    def pick(self, seed: str) -> float:
        if self.min_s == self.max_s:
            return self.min_s
        part = zlib.crc32(seed.encode()) / 0xFFFF_FFFF
        return round(self.min_s + (self.max_s - self.min_s) * part, 3)


ZERO_DURATION = DurationRange(0, 0)
ENDLESS = DurationRange(FOREVER, FOREVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerBehavior:
    pull: DurationRange = ZERO_DURATION
    pull_error: str = ""
    """The error of the image pull; empty if it succeeds."""
    start: DurationRange = ZERO_DURATION
    """The time from the request to start the container until it runs."""
    ready: DurationRange | None = None
    """The time from running until ready; None means the initial delays of the container's probes."""
    run: DurationRange | None = None
    """The time from running until the container exits; None means the default for its kind, see `run_span`."""
    exit_codes: Sequence[int] = (0,)
    """The exit codes of the first run, the second run and so on; the last one applies to all later runs."""
    reason: str = ""
    """The termination reason; empty means Completed or Error."""
    message: str = ""
    stop: DurationRange = ZERO_DURATION
    """The time from the stop signal until the container has exited."""
    stop_exit_code: int = _SIGTERM
    cpu: float = 0.0
    memory: int = 0
    log: str = ""

    def exit_code(self, attempt: int) -> int:
        return self.exit_codes[min(attempt, len(self.exit_codes) - 1)]


DEFAULT = ContainerBehavior()


def span(text: str) -> DurationRange:
    """Parse a duration or a range of durations."""
    minimum, dots, maximum = text.strip().partition("..")
    first = _seconds(minimum)
    last = _seconds(maximum) if dots else first
    if last < first:
        raise BehaviorError(f"in the range {text!r} the end is before the start")
    return DurationRange(first, last)


def _seconds(text: str) -> float:
    text = text.strip()
    if text == "forever":
        return FOREVER
    try:
        return max(float(text), 0.0)
    except ValueError:
        pass
    try:
        return max(durations.parse_duration(text) / 1e9, 0.0)
    except ValueError:
        raise BehaviorError(f"want a time as in 5, 1m30s, 5s..10s or forever, not {text!r}") from None


def _codes(text: str) -> tuple[int, ...]:
    try:
        codes = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BehaviorError(f"want exit codes as in 1 or 1,1,0, not {text!r}") from None
    if not all(0 <= code <= 255 for code in codes):
        raise BehaviorError(f"an exit code is between 0 and 255, not {text!r}")
    return codes


def _memory(text: str) -> int:
    return quantity.parse(text).value()


def _cores(text: str) -> float:
    return quantity.parse(text).as_float()


_READERS: Mapping[str, Any] = {
    "pull": span,
    "pull-error": str,
    "start": span,
    "ready": span,
    "run": span,
    "exit-code": _codes,
    "reason": str,
    "message": str,
    "stop": span,
    "stop-exit-code": lambda text: _codes(text)[0],
    "cpu": _cores,
    "memory": _memory,
    "log": str,
}
_FIELDS = {name: "exit_codes" if name == "exit-code" else name.replace("-", "_") for name in _READERS}
assert set(_FIELDS.values()) == {field.name for field in fields(ContainerBehavior)}


def override_fields(behavior: ContainerBehavior, annotations: Mapping[str, str]) -> ContainerBehavior:
    """Return the behavior with the fields in `annotations` replaced. The keys are the field names that annotations
    use."""
    values: dict[str, Any] = {}
    for name, text in annotations.items():
        reader = _READERS.get(name)
        if reader is None:
            raise BehaviorError(f"there is no {name!r}; supported: {', '.join(_READERS)}")
        if len(text) > HOLLOW_VALUE_CHARACTERS and name != "log":
            raise BehaviorError(f"the value may not be longer than {HOLLOW_VALUE_CHARACTERS} characters")
        values[_FIELDS[name]] = reader(text)
    return replace(behavior, **values) if values else behavior


def apply_annotations(behavior: ContainerBehavior, pod: Pod, container: str) -> ContainerBehavior:
    """Return the behavior with the pod's annotations for the container applied. Invalid annotations are ignored."""
    annotations = pod.metadata.annotations
    if not annotations:
        return behavior
    for suffix in ("", f".{container}"):
        for name in _READERS:
            text = annotations.get(f"{PREFIX}{name}{suffix}")
            if text is not None:
                with suppress(ValueError):
                    behavior = override_fields(behavior, {name: text})
    return behavior


def annotation_errors(annotations: Mapping[str, str], containers: Sequence[str]) -> list[str]:
    """Return messages about invalid annotations of a pod for its hollow containers: unknown names, with the nearest
    known one, unknown containers, and values that cannot be parsed. Such annotations are ignored otherwise. There are
    at most `HOLLOW_ANNOTATION_ERRORS` messages."""
    names = dict.fromkeys(containers)
    texts = (_annotation_error(key, text, names) for key, text in sorted(annotations.items()) if key.startswith(PREFIX))
    return list(islice(filter(None, texts), HOLLOW_ANNOTATION_ERRORS))


def _annotation_error(key: str, text: str, containers: Mapping[str, None]) -> str:
    name, _, container = key.removeprefix(PREFIX).partition(".")
    if name not in _READERS:
        nearest = difflib.get_close_matches(name, _READERS, n=1, cutoff=0.5)
        hint = f"did you mean {PREFIX}{nearest[0]}?" if nearest else f"supported: {', '.join(_READERS)}"
        return f"annotation {key} is unknown and ignored: {hint}"
    if container and container not in containers:
        names = ", ".join(islice(containers, _SHOWN_CONTAINERS))
        more = " and others" if len(containers) > _SHOWN_CONTAINERS else ""
        return f"annotation {key} is ignored: the pod has no container {container!r}; it has {names}{more}"
    try:
        override_fields(DEFAULT, {name: text})
    except ValueError as error:
        return f"annotation {key} is ignored: {error}"
    return ""


_COMPLETION = DurationRange(1, 1)


def run_span(behavior: ContainerBehavior, pod: Pod, container: Container, *, is_init: bool) -> DurationRange:
    """Return how long the container runs unless it is stopped: 0 seconds for an init container, 1 second for a
    container that runs to completion, and forever for all other containers, including sidecars."""
    if behavior.run is not None:
        return behavior.run
    if is_init:
        return ENDLESS if is_sidecar(container) else ZERO_DURATION
    return _COMPLETION if _runs_to_completion(pod, container) else ENDLESS


def _runs_to_completion(pod: Pod, container: Container) -> bool:
    """Whether the container has a task that ends. In a pod that may end, such as that of a workflow, a container with
    ports or probes is a server, which has none; no container of a Job is one."""
    if pod.spec.restartPolicy == "Always":
        return False
    is_of_job = any(owner.kind == "Job" and owner.controller for owner in pod.metadata.ownerReferences)
    probes = (container.readinessProbe, container.livenessProbe, container.startupProbe)
    return is_of_job or not (container.ports or any(probe is not None for probe in probes))


def ready_span(container: Container) -> tuple[float, float]:
    """Return the seconds after which a running container counts as started and as ready, unless `behavior.ready` is
    set."""
    startup, readiness = container.startupProbe, container.readinessProbe
    started_s = float(startup.initialDelaySeconds) if startup is not None else 0.0
    return started_s, max(started_s, float(readiness.initialDelaySeconds) if readiness is not None else 0.0)


class StageError(ConfigFileError):
    """The stage file is invalid; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HollowStage:
    annotations: Mapping[str, str]
    namespace: str = ""
    selector: labels.Selector = labels.EVERYTHING
    container: str = ""
    node: str = ""

    def matches(self, pod: Pod, container: str) -> bool:
        return (
            self.namespace in ("", pod.metadata.namespace)
            and self.container in ("", container)
            and self.node in ("", pod.spec.nodeName)
            and self.selector.matches(pod.metadata.labels)
        )


@dataclass(frozen=True, slots=True)
class HollowStages:
    stages: Sequence[HollowStage] = field(default_factory=tuple)

    def behavior(self, pod: Pod, container: str) -> ContainerBehavior:
        effective = DEFAULT
        for stage in self.stages:
            if stage.matches(pod, container):
                effective = override_fields(effective, stage.annotations)
        return apply_annotations(effective, pod, container)


NO_STAGES = HollowStages()


def read_stages(path: Path) -> HollowStages:
    """Read a stage file. Raise StageError with the path if it is invalid or cannot be read."""
    try:
        content = read_config_file(path)
    except ConfigFileError as error:
        raise StageError(f"{path}: {error}") from None
    if not isinstance(content, dict) or set(content) != {"stages"} or not isinstance(content["stages"], list):
        raise StageError(f"{path}: want an object with the single field stages, a list")
    return HollowStages(tuple(_stage(number, entry) for number, entry in enumerate(content["stages"], 1)))


def _stage(number: int, entry: Any) -> HollowStage:
    if not isinstance(entry, dict):
        raise StageError(f"stage {number} must be an object")
    match = entry.get("match", {})
    if not isinstance(match, dict) or set(match) - set(_MATCH):
        raise StageError(f"stage {number}: match takes {', '.join(_MATCH)}")
    settings = {key: _text(value) for key, value in entry.items() if key not in ("name", "match")}
    try:
        override_fields(DEFAULT, settings)
        selector = labels.parse(match.get("labels", ""))
    except (BehaviorError, ValueError) as error:
        raise StageError(f"stage {number}: {error}") from None
    return HollowStage(
        annotations=settings,
        namespace=match.get("namespace", ""),
        selector=selector,
        container=match.get("container", ""),
        node=match.get("node", ""),
    )


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
