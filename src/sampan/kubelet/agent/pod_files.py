"""The files of a pod, outside of its volumes, that the kubelet shares with containers and that these can write to: the
hosts file and the termination messages. They are on the disk of the node, so they count as local storage of the pod."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from sampan.host.linux.directory_trees import TreeEntry, walk_tree
from sampan.kubelet.agent.termination_messages import MAX_MESSAGE_BYTES
from sampan.kubelet.container_config.builder import HOSTS_FILE, MESSAGES_DIRECTORY
from sampan.runtimes.contract import ContainerUsage

_MAX_MESSAGE_FILE_BYTES: Final = 64 << 10
"""The size from which the file of a termination message is truncated to the part that is read of it."""
_BLOCK: Final = 512


def measure_pod_files(pod_directory: Path) -> ContainerUsage:
    """Return the usage of a pod's files, and truncate termination messages that are too large. The call blocks."""
    blocks = inodes = 0
    with suppress(OSError):  # the pod has no files yet, or none any more
        blocks, inodes = os.lstat(pod_directory / HOSTS_FILE).st_blocks, 1
    with suppress(OSError):
        for entry in walk_tree(pod_directory / MESSAGES_DIRECTORY):
            blocks, inodes = blocks + entry.status.st_blocks, inodes + 1
            if entry.is_file and entry.status.st_size > _MAX_MESSAGE_FILE_BYTES:
                _truncate(entry)
    return ContainerUsage("", 0, 0, disk_bytes=blocks * _BLOCK, inodes=inodes)


def _truncate(entry: TreeEntry) -> None:
    with suppress(OSError):
        file = os.open(entry.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=entry.directory)
        try:
            os.ftruncate(file, MAX_MESSAGE_BYTES)
        finally:
            os.close(file)
