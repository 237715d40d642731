"""The resource types of a server in a file, so that most commands need no discovery
(`client-go/discovery/cached/disk`).

The file is in the directory that kubectl uses for the same server, and is valid as long as kubectl's files: six hours,
or until a command names a type that is not in it. It also names the CA of the server, because test clusters reuse
addresses. A file that cannot be read, belongs to another user or has other content counts as absent.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sampan.api.codec.errors import JSON_ERRORS
from sampan.host.durable_files import write_durably
from sampan.kubectl.client.resource_type import ResourceType
from sampan.machinery.client.access import Access

_FILE = "sampan-resources.json"
_TTL_S = 6 * 3600
_MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class CachedTypes:
    """The content of a discovery cache file: resource types, and the hash of the server's CA."""

    ca_digest: str
    types: list[ResourceType]


class DiscoveryCache:
    def __init__(self, *, directory: str, access: Access) -> None:
        """`directory` is the value of --cache-dir; empty for the default of kubectl."""
        parent = Path(directory or os.environ.get("KUBECACHEDIR") or Path.home() / ".kube" / "cache")
        host = access.server.replace("https://", "", 1).replace("http://", "", 1)
        parts = [part for part in re.sub(r"[^(\w/.)]", "_", host, flags=re.ASCII).split("/") if part not in ("", "..")]
        self._path = parent.joinpath("discovery", *parts, _FILE)
        self._ca_digest = hashlib.sha256(access.ca_pem).hexdigest()

    def load(self) -> list[ResourceType] | None:
        """Return the resource types that an earlier command stored. Return None if the file is missing, expired or that
        of another server."""
        data = self._read()
        if data is None:
            return None
        try:
            cached = msgspec.json.decode(data, type=CachedTypes)
        except JSON_ERRORS:
            return None
        return cached.types if cached.ca_digest == self._ca_digest and cached.types else None

    def store(self, types: list[ResourceType]) -> None:
        """Write the resource types to the cache file. A directory that cannot be written is no error."""
        data = msgspec.json.encode(CachedTypes(self._ca_digest, types))
        try:
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            write_durably(self._path, data, mode=0o600, is_synced=False)  # a cache
        except OSError:
            pass

    def _read(self) -> bytes | None:
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            status = os.fstat(handle)
            is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            is_fresh = 0 <= time.time() - status.st_mtime < _TTL_S
            if not (is_own and is_fresh and status.st_size <= _MAX_BYTES):
                return None
            with os.fdopen(handle, "rb", closefd=False) as file:
                return file.read(_MAX_BYTES)
        except OSError:
            return None
        finally:
            os.close(handle)
