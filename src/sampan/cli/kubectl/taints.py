"""Changes of a node's taints: their text form and their effect on a list of taints (`cmd/taint/utils.go`)."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api import names
from sampan.api.go_compat import gotext
from sampan.cli.failures import CliError

Taint = dict[str, str]
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def parse_taint_changes(texts: Sequence[str]) -> tuple[list[Taint], list[Taint]]:
    """Parse KEY[=VALUE]:EFFECT (to add) and KEY[:EFFECT]- (to remove)."""
    added: list[Taint] = []
    removed: list[Taint] = []
    for text in texts:
        if text.endswith("-"):
            removed.append({key: part for key, part in _parse_taint(text[:-1]).items() if key != "value"})
            continue
        taint = _parse_taint(text)
        if "effect" not in taint:
            raise CliError(f"invalid taint spec: {text}")
        if any(is_same_taint(taint, other) for other in added):
            shown = f"{{{taint['key']} {taint.get('value', '')} {taint['effect']} <nil>}}"
            raise CliError(f"duplicated taints with the same key and effect: {shown}")
        added.append(taint)
    return added, removed


def _parse_taint(text: str) -> Taint:
    parts = text.split(":")
    if len(parts) > 2:
        raise CliError(f"invalid taint spec: {text}")
    taint: Taint = {"key": parts[0]}
    if len(parts) == 2:
        if parts[1] not in _EFFECTS:
            raise CliError(f"invalid taint effect: {parts[1]}, unsupported taint effect")
        key, *values = parts[0].split("=")
        if len(values) > 1:
            raise CliError(f"invalid taint spec: {text}")
        taint = {"key": key}
        if values and (errors := names.label_value(values[0])):
            raise CliError(f"invalid taint spec: {text}, {'; '.join(errors)}")
        taint |= {"value": values[0]} if values and values[0] else {}
        taint["effect"] = parts[1]
    if errors := names.label_key(taint["key"]):
        raise CliError(f"invalid taint spec: {text}, {'; '.join(errors)}")
    return taint


def check_conflicts(added: Sequence[Taint], removed: Sequence[Taint]) -> None:
    conflicts = [
        f"{other['key']}={other.get('effect', '')}"
        for taint in added
        for other in removed
        if taint["key"] == other["key"] and other.get("effect", taint["effect"]) == taint["effect"]
    ]
    if conflicts:
        what = ", ".join(conflicts)
        raise CliError(f"can not both modify and remove the following taint(s) in the same command: {what}")


def changed_taints(
    current: Sequence[Taint], added: Sequence[Taint], removed: Sequence[Taint], *, overwrite: bool, node: str
) -> tuple[str, list[Taint]]:
    """Return the operation that kubectl reports, and the taints after it. Raise CliError for a taint that exists (if
    `overwrite` is not set), and for a removed one that does not."""
    if not overwrite:
        existing = [taint["key"] for taint in added for other in current if is_same_taint(taint, other)]
        if existing:
            keys = ",".join(existing)
            raise CliError(f"node {node} already has {keys} taint(s) with same effect(s) and --overwrite is false")
    taints = [*added, *(old for old in current if not any(is_same_taint(old, taint) for taint in added))]
    is_longer = len(current) != len(taints)
    errors: list[str] = []
    is_removed = False
    for taint in removed:
        kept = [old for old in taints if not _is_removed_by(old, taint)]
        is_removed = len(kept) != len(taints)
        if not is_removed:
            errors.append(f"taint {gotext.quote(_text(taint))} not found")
        taints = kept
    if errors:
        raise CliError(errors[0] if len(set(errors)) == 1 else f"[{', '.join(dict.fromkeys(errors))}]")
    if overwrite or (is_longer and is_removed):
        return "modified", taints
    return ("tainted" if is_longer else "untainted"), taints


def is_same_taint(taint: Taint, other: Taint) -> bool:
    return taint["key"] == other["key"] and taint.get("effect") == other.get("effect")


def _is_removed_by(taint: Taint, removal: Taint) -> bool:
    return is_same_taint(taint, removal) if "effect" in removal else taint["key"] == removal["key"]


def _text(taint: Taint) -> str:
    return f"{taint['key']}:{taint['effect']}" if "effect" in taint else taint["key"]
