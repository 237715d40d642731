"""The stage file, which defines the behaviour of hollow pods by selectors.

    stages:
    - name: web servers fall over now and then
      match: {namespace: default, labels: app=web, container: main, node: node-3}
      run: 1m..5m
      exit-code: 1
      ready: 2s

If several stages match, later ones override earlier ones; annotations of the pod override all stages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sampan.api import labels
from sampan.api.types.core_v1 import Pod
from sampan.runtimes.hollow.behaviour import DEFAULT, Behaviour, BehaviourError, annotated, changed

_MATCH = ("namespace", "labels", "container", "node")


class StageError(ValueError):
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
class Stages:
    stages: Sequence[HollowStage] = field(default_factory=tuple)

    def behaviour(self, pod: Pod, container: str) -> Behaviour:
        effective = DEFAULT
        for stage in self.stages:
            if stage.matches(pod, container):
                effective = changed(effective, stage.annotations)
        return annotated(effective, pod, container)


NO_STAGES = Stages()


def read_stages(path: Path) -> Stages:
    import yaml

    try:
        content = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise StageError(f"{path}: {error}") from None
    if not isinstance(content, dict) or set(content) != {"stages"} or not isinstance(content["stages"], list):
        raise StageError(f"{path}: want an object with the single field stages, a list")
    return Stages(tuple(_stage(number, entry) for number, entry in enumerate(content["stages"], 1)))


def _stage(number: int, entry: Any) -> HollowStage:
    if not isinstance(entry, dict):
        raise StageError(f"stage {number} must be an object")
    match = entry.get("match", {})
    if not isinstance(match, dict) or set(match) - set(_MATCH):
        raise StageError(f"stage {number}: match takes {', '.join(_MATCH)}")
    settings = {key: _text(value) for key, value in entry.items() if key not in ("name", "match")}
    try:
        changed(DEFAULT, settings)
        selector = labels.parse(match.get("labels", ""))
    except (BehaviourError, ValueError) as error:
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
