import subprocess
import sys

import pytest

from sampan.cluster.machine.host_locks import HostLocks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract socket names exist on Linux only")


def test_lock_has_one_holder_at_a_time() -> None:
    first, other = HostLocks(), HostLocks()
    assert first.acquire("tests: lock")
    assert first.acquire("tests: lock"), "the holder may acquire its lock again"
    assert not other.acquire("tests: lock")
    assert other.acquire("tests: second lock")
    first.close()
    assert other.acquire("tests: lock")
    other.close()


def test_lock_is_released_when_its_process_exits() -> None:
    code = "from sampan.cluster.machine.host_locks import HostLocks; assert HostLocks().acquire('tests: exit')"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    mine = HostLocks()
    assert mine.acquire("tests: exit")
    mine.close()
