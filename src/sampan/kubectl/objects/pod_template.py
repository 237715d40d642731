"""Changes of the pod template of a workload, sent as a strategic merge patch: for `set` and `rollout`
(`kubectl/pkg/cmd/set/helper.go`, `polymorphichelpers/updatepodspec.go`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import click

from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.patch_metadata import strategic_patch
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.machinery.cli_errors import CliError

Change = Callable[[dict[str, Any], ResourceInfo], None]
"""Changes a copy of an object in place; raises CliError if it cannot."""


class ObjectChangeError(KubectlError):
    """The change of one object failed. In a list of errors the message is followed by an empty line, as in kubectl."""

    def __init__(self, info: ResourceInfo, problem: CliError) -> None:
        super().__init__(f"error: {info.kind.plural}/{info.name} {problem.message}")

    @property
    def text_in_list(self) -> str:
        return f"{self.message}\n"


_POD_TEMPLATE_KINDS = ("ReplicationController", "Deployment", "DaemonSet", "ReplicaSet", "StatefulSet", "Job")


def pod_spec_of(value: dict[str, Any], info: ResourceInfo) -> dict[str, Any]:
    """Return the pod spec in an object, to be changed in place."""
    kind = info.kind.kind
    if kind == "Pod":
        path: tuple[str, ...] = ("spec",)
    elif kind == "CronJob":
        path = ("spec", "jobTemplate", "spec", "template", "spec")
    elif kind in _POD_TEMPLATE_KINDS and info.kind.group in ("", "apps", "batch", "extensions"):
        path = ("spec", "template", "spec")
    else:
        shown = f"*{info.kind.version}.{kind}"
        raise CliError(f"the object is not a pod or does not have a pod template: {shown}")
    for part in path:
        value = value.setdefault(part, {})
    return value


def containers_of(pod_spec: dict[str, Any], pattern: str) -> list[dict[str, Any]]:
    """Return the containers, then the init containers, whose name matches a pattern with asterisks."""
    return [
        container
        for field in ("containers", "initContainers")
        for container in pod_spec.get(field) or ()
        if matches_pattern(container["name"], pattern)
    ]


def matches_pattern(name: str, pattern: str) -> bool:
    """Whether the whole name matches a pattern in which each asterisk stands for any text. The time is linear."""
    first, *further_parts = pattern.split("*")
    if not further_parts:
        return name == pattern
    *middle, last = further_parts
    position, end = len(first), len(name) - len(last)
    if position > end or not (name.startswith(first) and name.endswith(last)):
        return False
    for part in middle:
        index = name.find(part, position, end)
        if index < 0:
            return False
        position = index + len(part)
    return True


def compute_patches(
    infos: list[ResourceInfo], change: Change
) -> Iterator[tuple[ResourceInfo, dict[str, Any], dict[str, Any] | CliError]]:
    """Yield each object with its changed value and the patch, or the error of the change."""
    for info in infos:
        value = deepcopy(info.value)
        try:
            change(value, info)
        except CliError as error:
            yield info, value, error
        else:
            yield info, value, strategic_patch(info, value)


def warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)
