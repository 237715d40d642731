"""/debug/store: all entries of the store at one revision, for snapshots of clusters whose store is not a file.

Values are returned as they are stored, encrypted if they are stored encrypted. As for every non-resource URL, a role
must allow the request. By default only the role of administrators does, who can read all objects anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sampan.machinery import errors
from sampan.storage.backend import Backend
from sampan.storage.transfer import read_entries

if TYPE_CHECKING:
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ApiResponse

PATH = "/debug/store"


class StoreEntry(msgspec.Struct, frozen=True):
    """A line of the response. The value is encoded in base64."""

    key: str
    value: bytes


class StoreDump:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def handle(self, call: Call) -> ApiResponse:
        from sampan.apiserver.response.responses import RawResponse

        if call.method != "GET":
            raise errors.generic(405)
        lines: list[bytes] = []
        async for entries in read_entries(self._backend):
            lines += [msgspec.json.encode(StoreEntry(entry.key, entry.value)) for entry in entries]
        return RawResponse(b"\n".join(lines), "application/x-ndjson")
