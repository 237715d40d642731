"""`kubectl create serviceaccount`: a ServiceAccount."""

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
class CreateServiceAccountOptions(NameOptions):
    creation: CreationOptions = creation_flags()


def service_account(name: str, namespace: str = "") -> dict[str, Any]:
    return {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata(name, namespace)}


command = generator_command(
    "serviceaccount",
    CreateServiceAccountOptions,
    pure(lambda name, namespace, _options: service_account(name, namespace)),
    help="Create a service account.",
    failure="failed to create serviceaccount:",
    aliases=("sa",),
)
