"""Which namespace an object from a file goes to."""

from __future__ import annotations

from typing import Any

from sampan.cli.failures import CliError
from sampan.cli.kubectl.kinds import Kind
from sampan.cli.kubectl.session import Session


def namespace_for(kind: Kind, obj: dict[str, Any], session: Session, asked: str) -> str:
    """Its own, or the session's; one that contradicts the command line is refused."""
    if not kind.is_namespaced:
        return ""
    own = obj.get("metadata", {}).get("namespace", "")
    if own and asked and own != asked:
        raise CliError(
            f'the namespace from the provided object "{own}" does not match the namespace "{asked}". '
            f"You must pass '--namespace={own}' to perform this operation."
        )
    return own or session.namespace
