"""The annotation with the configuration that was applied last (`kubectl/pkg/util/apply.go`).

`kubectl apply` detects by it which fields were removed from a file.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.api.go_compat import gotext

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def last_applied_text(value: dict[str, Any]) -> str | None:
    """Return the annotation of an object, or None if it has none."""
    text = ((value.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    return text if isinstance(text, str) else None


def decode_last_applied(value: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration in the annotation; empty without one or if it cannot be decoded."""
    try:
        decoded = msgspec.json.decode(last_applied_text(value) or "{}")
    except JSON_ERRORS:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def configuration_text(value: dict[str, Any]) -> str:
    """Return the object without the annotation, as it is stored in the annotation."""
    metadata = dict(value.get("metadata") or {})
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {key: text for key, text in annotations.items() if key != LAST_APPLIED}
    return gotext.json_text({**value, "metadata": metadata}) + "\n"


def with_last_applied(value: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the annotation that contains its own configuration."""
    metadata = dict(value.get("metadata") or {})
    annotations = {**(metadata.get("annotations") or {}), LAST_APPLIED: configuration_text(value)}
    return {**value, "metadata": {**metadata, "annotations": annotations}}
