"""`kubectl create deployment`: a Deployment with one container per image."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import click

from sampan.kubectl.command_line.flag_parser import STRING_SLICE
from sampan.kubectl.commands.create.generator import container, generator_command, metadata
from sampan.machinery.cli_errors import CliError

_NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"


def deployment(
    name: str,
    namespace: str = "",
    *,
    image: Sequence[str],
    command: Sequence[str] = (),
    port: int = -1,
    replicas: int = 1,
) -> dict[str, Any]:
    if len(image) > 1 and command:
        raise CliError("cannot specify multiple --image options and command")
    labels = {"app": name}
    containers = [
        container(container_name(reference), reference, command, [port] if port >= 0 and not index else [])
        for index, reference in enumerate(image)
    ]
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": metadata(name, namespace, labels=labels),
        "spec": {
            "replicas": replicas,
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
    click.option(
        "--image", multiple=True, type=STRING_SLICE, required=True, help="Image to run; one container per image."
    ),
    click.option("--port", type=click.INT, default=-1, help="Port of the first container."),
    click.option("-r", "--replicas", type=click.INT, default=1, help="Number of replicas of the pod."),
    help="Create a deployment.",
    failure="failed to create deployment:",
    aliases=("deploy",),
    takes_command=True,
)(deployment)
