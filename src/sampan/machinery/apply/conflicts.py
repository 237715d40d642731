"""The error response for apply conflicts."""

from itertools import groupby

from sampan.api import gotext
from sampan.machinery import errors
from sampan.machinery.apply.applying import Conflicts
from sampan.machinery.apply.managed import UPDATE, Owner
from sampan.machinery.apply.sets import shown_path


def refusal(conflicts: Conflicts) -> errors.ApiError:
    """Return the error of an apply with conflicts, grouped by manager."""
    ordered = sorted(conflicts.found, key=lambda conflict: conflict[0].identity)
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {shown(owner)}", "field": shown_path(path)}
        for owner, path in ordered
    ]
    return errors.apply_conflict(_message(ordered), causes)


def _message(found: list[tuple[Owner, tuple[str, ...]]]) -> str:
    if len(found) == 1:
        owner, path = found[0]
        return f"Apply failed with 1 conflict: conflict with {shown(owner)}: {shown_path(path)}"
    lines: list[str] = []
    for owner, group in groupby(found, key=lambda conflict: conflict[0]):
        lines.append(f"conflicts with {shown(owner)}:")
        lines += [f"- {shown_path(path)}" for _, path in group]
    return f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)


def shown(whose: Owner) -> str:
    text = gotext.quote(whose.manager)
    if whose.subresource:
        text += f" with subresource {gotext.quote(whose.subresource)}"
    return f"{text} using {whose.api_version}" if whose.operation == UPDATE else text
