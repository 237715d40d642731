"""Raising the limit on open files."""

import subprocess
import sys

_SCRIPT = """
import resource
from sampan.host.linux.process_resources import raise_descriptor_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))
print(raise_descriptor_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_soft_limit_is_raised_to_the_hard_limit() -> None:
    result = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["512", "512", "512"]
