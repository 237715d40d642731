"""Recognize user namespaces."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from sampan.machinery.linux.user_namespace import is_group_mapped, is_in_user_namespace

SCRIPT = """
from sampan.machinery.linux.user_namespace import is_group_mapped, is_in_user_namespace
print(is_in_user_namespace(), is_group_mapped(0), is_group_mapped(5))
"""


def test_groups_are_mapped_outside_of_a_user_namespace() -> None:
    if is_in_user_namespace():
        pytest.skip("the tests run in a user namespace")
    assert is_group_mapped(5)


def test_user_namespace_with_one_mapped_user_is_recognized() -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--user", "true"], check=False).returncode:
        pytest.skip("may not create user namespaces")
    argv = ["unshare", "--user", "--map-root-user", sys.executable, "-c", SCRIPT]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "True True False\n"
