"""`kubectl create namespace`: a Namespace."""

from __future__ import annotations

from typing import Any

from sampan.kubectl.commands.create.generator import generator_command, metadata


def namespace(name: str) -> dict[str, Any]:
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata(name), "spec": {}, "status": {}}


command = generator_command("namespace", help="Create a namespace.", aliases=("ns",))(
    lambda name, _namespace: namespace(name)
)
