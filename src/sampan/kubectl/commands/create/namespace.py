"""`kubectl create namespace`: a Namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.commands.create.generator import (
    CreationOptions,
    NameOptions,
    creation_flags,
    generator_command,
    metadata,
    pure,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNamespaceOptions(NameOptions):
    creation: CreationOptions = creation_flags()


def namespace(name: str) -> dict[str, Any]:
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata(name), "spec": {}, "status": {}}


command = generator_command(
    "namespace",
    CreateNamespaceOptions,
    pure(lambda name, _namespace, _options: namespace(name)),
    help="Create a namespace.",
    aliases=("ns",),
)
