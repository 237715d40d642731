"""An event recorder that keeps events in a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.machinery.events import EventRecorder, reference


class RecordedEvents(EventRecorder):
    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, str]] = []
        """The type, the reason, namespace/name of the object, and the message."""

    def event(
        self,
        obj: Any,
        type: str,
        reason: str,
        message: str,
        *,
        annotations: Mapping[str, str] | None = None,
        host: str = "",
    ) -> None:
        about = reference(obj)
        self.events.append((type, reason, f"{about.namespace}/{about.name}", message))
