"""The description of a pod template, as `kubectl describe` prints it."""

from __future__ import annotations

from typing import Any


def template_text(template: dict[str, Any]) -> str:
    """Return the lines that begin with "Pod Template:"."""
    from sampan.cli.kubectl.describers.pods import pod_template

    return "".join(f"{line}\n" for line in pod_template(template))
