import subprocess
import sys
from contextlib import closing

import pytest

from sampan.cluster.machine.host_locks import HostLocks, held_bridges

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")


def test_one_has_it_at_a_time() -> None:
    first, other = HostLocks(), HostLocks()
    assert first.acquire("tests: it")
    assert first.acquire("tests: it"), "it has it"
    assert not other.acquire("tests: it")
    assert other.acquire("tests: another")
    first.close()
    assert other.acquire("tests: it")
    other.close()


def test_it_ends_with_its_process() -> None:
    code = "from sampan.cluster.machine.host_locks import HostLocks; assert HostLocks().acquire('tests: ending')"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    mine = HostLocks()
    assert mine.acquire("tests: ending")
    mine.close()


def test_bridges_of_running_processes_are_known() -> None:
    with closing(HostLocks()) as locks:
        locks.acquire_bridge("sn00ffee")
        assert "sn00ffee" in held_bridges()
    assert "sn00ffee" not in held_bridges()
