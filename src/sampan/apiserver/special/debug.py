"""/debug: debug handlers of components, for users with permission for the non-resource URL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from sampan.apiserver.results import no_such_path

if TYPE_CHECKING:
    from sampan.apiserver.call import Call
    from sampan.apiserver.results import Answer

Handler = Callable[["Call"], Awaitable["Answer"]]


class Debug:
    def __init__(self, *handlers: Mapping[str, Handler]) -> None:
        """Each mapping has the handlers by their full path. It may change while the server runs."""
        self._handlers = handlers

    async def handle(self, call: Call) -> Answer:
        path = call.path.rstrip("/")
        for handlers in self._handlers:
            if path in handlers:
                return await handlers[path](call)
        return no_such_path()
