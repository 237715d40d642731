"""Folders that pods have filled, however deep they are: what Python does by recursion would end with an error there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """All that is in the folder and below; links are not followed, and what cannot be read is left out."""
    places = [os.fspath(folder)]
    while places:
        try:
            found = list(os.scandir(places.pop()))
        except OSError:
            continue
        for entry in found:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                places.append(entry.path)


def remove_tree(folder: Path) -> None:
    """OSError where something of it stays."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):  # rm needs neither a frame nor a descriptor for each level
        command = ["rm", "-rf", "--one-file-system", "--", os.fspath(folder)]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        if done.returncode:
            raise OSError((done.stderr.strip().splitlines() or [f"{folder} cannot be removed"])[-1]) from None


__all__ = ["entries", "remove_tree"]
