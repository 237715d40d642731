"""`sampan` of a user who is not root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sampan.host.linux.user_namespace import is_in_user_namespace
from tests.cli.command import Sampan
from tests.skips import requires

USER = 65534
AS_USER = f"""
if [ -n "$PYTHON" ] && ! setpriv --reuid {USER} --clear-groups --regid {USER} test -x "$PYTHON"; then
    mount --bind "$PYTHON" "$PLACE" && mount -t tmpfs -o mode=755 none "$(echo "$PYTHON" | cut -d/ -f1-2)"
    mkdir -p "$PYTHON" && mount --bind "$PLACE" "$PYTHON"
fi
cd / && exec setpriv --reuid {USER} --regid {USER} --clear-groups --inh-caps=-all "$@"
"""
"""A script that runs a command as another user, and shows it the directory of Python, even in the home of root."""


_NEEDED = requires("root", "setpriv", "unshare", "nft", "crun or runc")
_NOT_NESTED = pytest.mark.skipif(is_in_user_namespace(), reason="root of a user namespace is not root of the machine")
USER_MARKS = (_NEEDED, _NOT_NESTED)


def needs_users(test: Callable[..., None]) -> Callable[..., None]:
    """Skip a test that runs programs as another user, unless root of the machine runs it."""
    marked: Callable[..., None] = _NOT_NESTED(_NEEDED(test))
    return marked


@contextmanager
def plain_user(place: Path) -> Iterator[Sampan]:
    """Yield `sampan` of another user, and remove its cluster. `place` is an empty directory of the test."""
    directory = Path(subprocess.run(["mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
    directory.chmod(0o755)
    home = directory / "home"
    home.mkdir()
    os.chown(home, USER, USER)
    sampan = Sampan(home)
    sampan.environment |= {"PYTHON": sys.base_prefix, "PLACE": str(place)}
    sampan.prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", AS_USER, "sh"]
    try:
        yield sampan
    finally:
        if sampan.directory().exists():
            sampan.run("down", "--delete")
        shutil.rmtree(directory)
