"""Pure conversion of config maps, secrets and downward API fields to files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from sampan.api.types.core_v1 import ConfigMap, Container, DownwardAPIVolumeFile, KeyToPath, Pod, Secret
from sampan.kubelet.environment.downward import FieldUnknown, Surroundings, field_value, resource_value
from sampan.kubelet.volumes.atomic import File
from sampan.kubelet.volumes.contract import VolumeFault

_NOTHING = Surroundings()


def of_config_map(found: ConfigMap, items: Sequence[KeyToPath], mode: int | None, *, optional: bool) -> dict[str, File]:
    data = {name: text.encode() for name, text in found.data.items()} | dict(found.binaryData)
    return _chosen(data, items, mode, optional, "configmap references non-existent config key")


def of_secret(found: Secret, items: Sequence[KeyToPath], mode: int | None, *, optional: bool) -> dict[str, File]:
    return _chosen(dict(found.data), items, mode, optional, "references non-existent secret key")


def _chosen(
    every: Mapping[str, bytes], items: Sequence[KeyToPath], mode: int | None, optional: bool, missing: str
) -> dict[str, File]:
    mode = default_mode(mode)
    if not items:
        return {name: File(content, mode) for name, content in every.items()}
    files = {}
    for item in items:
        if item.key in every:
            files[item.path] = File(every[item.key], mode if item.mode is None else item.mode)
        elif not optional:
            raise VolumeFault(f"{missing}: {item.key}")
    return files


def of_pod(
    pod: Pod, items: Sequence[DownwardAPIVolumeFile], mode: int | None, allocatable: Mapping[str, str]
) -> dict[str, File]:
    mode = default_mode(mode)
    files, errors = {}, []
    for item in items:
        try:
            text = _of_pod(pod, item, allocatable)
        except (FieldUnknown, VolumeFault) as error:
            errors.append(str(error))
            continue
        path = str(PurePosixPath(item.path))
        files[path] = File(text.encode(), mode if item.mode is None else item.mode)
    raise_together(errors)
    return files


def _of_pod(pod: Pod, item: DownwardAPIVolumeFile, allocatable: Mapping[str, str]) -> str:
    if item.fieldRef is not None:
        return field_value(pod, item.fieldRef.fieldPath, _NOTHING)
    if item.resourceFieldRef is not None:
        selector = item.resourceFieldRef
        return resource_value(_container(pod, selector.containerName), selector, allocatable)
    return ""


def _container(pod: Pod, name: str) -> Container:
    containers: list[Container] = [*(pod.spec.containers or ()), *pod.spec.initContainers]
    for container in containers:
        if container.name == name:
            return container
    raise VolumeFault(f"container {name} not found")


def default_mode(mode: int | None) -> int:
    if mode is None:
        raise VolumeFault("no defaultMode used, not even the default value for it")
    return mode


def raise_together(faults: Sequence[str]) -> None:
    """Raise one VolumeFault for all errors, if there are any."""
    messages = list(dict.fromkeys(faults))
    if messages:
        raise VolumeFault(messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]")
