"""Traverse and remove directory trees of any depth. Pods may create trees that exceed Python's recursion limit."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


def entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    """Yield all entries below the directory. Symbolic links are not followed, and unreadable directories are
    skipped."""
    pending = [os.fspath(directory)]
    while pending:
        try:
            children = list(os.scandir(pending.pop()))
        except OSError:
            continue
        for entry in children:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)


def remove_tree(directory: Path) -> None:
    """Remove a directory tree. Raise OSError if a part of it cannot be removed."""
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):  # rm needs no stack frame or descriptor per level
        command = ["rm", "-rf", "--one-file-system", "--", os.fspath(directory)]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        if done.returncode:
            raise OSError((done.stderr.strip().splitlines() or [f"{directory} cannot be removed"])[-1]) from None
