"""Images that Sampan loads into an engine that lacks them: those in Sampan's own store, and the host image. With them a
machine without access to a registry can run pods on any engine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from sampan.runtimes.config import Mount
from sampan.runtimes.images import bundles, host
from sampan.runtimes.images.bundles import ImageBundle
from sampan.runtimes.images.reference import BadReference, parse_reference
from sampan.runtimes.images.store import ImageStore, ImageUnknown


class ImageSupply:
    """Supplies images and mounts to engines. `directory` is the directory of the node."""

    def __init__(self, *, directory: Path, store: ImageStore | None = None) -> None:
        self._directory, self._store = directory, store
        self._host: host.HostRoot | None = None
        self._making = threading.Lock()

    def host(self) -> host.HostRoot:
        with self._making:  # several threads may call this at the same time
            if self._host is None:
                self._host = host.host_root(self._directory / "host")
            return self._host

    def find(self, name: str) -> ImageBundle | None:
        if host.is_host(name):
            return host.bundle(self.host())
        if self._store is None:
            return None
        try:
            return bundles.bundle_from_store(self._store, self._store.get(name), str(parse_reference(name)))
        except (ImageUnknown, BadReference):
            return None

    def layers(self, name: str) -> Sequence[Path]:
        """Return the unpacked layers of an image in Sampan's own store, the lowest first; none if the image is not
        there."""
        try:
            return self._store.lower_layers(self._store.get(name)) if self._store is not None else ()
        except (ImageUnknown, BadReference):
            return ()

    def mounts(self, image: str) -> Sequence[Mount]:
        """Return the mounts that containers of an image need. For the host image these are the machine's directories
        with programs, and empty directories that hide directories which are private by custom."""
        if not host.is_host(image):
            return ()
        empty = self._directory / "host" / "empty"
        empty.mkdir(parents=True, exist_ok=True, mode=0o755)
        shown = self.host().shown
        shown_mounts = [
            Mount(source=directory.source, target=directory.target, is_read_only=True) for directory in shown
        ]
        private = [path for directory in shown for path in directory.list_private_paths()]
        return [*shown_mounts, *(Mount(source=empty, target=path, is_read_only=True) for path in private)]
