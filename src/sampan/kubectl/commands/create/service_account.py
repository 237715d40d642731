"""`kubectl create serviceaccount`: a ServiceAccount."""

from __future__ import annotations

from typing import Any

from sampan.kubectl.commands.create.generator import generator_command, metadata


def service_account(name: str, namespace: str = "") -> dict[str, Any]:
    return {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata(name, namespace)}


command = generator_command(
    "serviceaccount",
    help="Create a service account.",
    failure="failed to create serviceaccount:",
    aliases=("sa",),
)(service_account)
