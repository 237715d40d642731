"""`kubectl create deployment`: a Deployment with one container per image."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from sampan.kubectl.command_line.flags import int_flag, string_slice_flag
from sampan.kubectl.commands.create.generator import (
    CreationOptions,
    NameOptions,
    container,
    creation_flags,
    generator_command,
    metadata,
    pure,
)
from sampan.machinery.cli_errors import CliError

_NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDeploymentOptions(NameOptions):
    image: tuple[str, ...] = string_slice_flag("--image", required=True, help="Image to run; one container per image.")
    port: int = int_flag("--port", default=-1, help="Port of the first container.")
    replicas: int = int_flag("-r", "--replicas", default=1, help="Number of replicas of the pod.")
    creation: CreationOptions = creation_flags()


def deployment(name: str, namespace: str, options: CreateDeploymentOptions) -> dict[str, Any]:
    if len(options.image) > 1 and options.command:
        raise CliError("cannot specify multiple --image options and command")
    labels = {"app": name}
    containers = [
        container(
            container_name(reference),
            reference,
            options.command,
            [options.port] if options.port >= 0 and not index else [],
        )
        for index, reference in enumerate(options.image)
    ]
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": metadata(name, namespace, labels=labels),
        "spec": {
            "replicas": options.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            "strategy": {},
        },
        "status": {},
    }


def container_name(image: str) -> str:
    """Return a container name for an image: the last part of its path, with a random suffix if characters had to be
    replaced."""
    name = image.rpartition("/")[2].partition(":")[0].partition("@")[0]
    if "_" not in name and "." not in name:
        return name
    suffix = "".join(random.choices(_NAME_CHARACTERS, k=5))
    return f"{name.replace('_', '-').replace('.', '-')}-{suffix}"


command = generator_command(
    "deployment",
    CreateDeploymentOptions,
    pure(deployment),
    help="Create a deployment.",
    failure="failed to create deployment:",
    aliases=("deploy",),
)
