import subprocess
import sys

import pytest

from sampan.cli.claims import Claims

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")


def test_one_has_it_at_a_time() -> None:
    one, other = Claims(), Claims()
    assert one.take("tests: it")
    assert one.take("tests: it"), "it has it"
    assert not other.take("tests: it")
    assert other.take("tests: another")
    one.close()
    assert other.take("tests: it")
    other.close()


def test_it_ends_with_its_process() -> None:
    code = "from sampan.cli.claims import Claims; assert Claims().take('tests: ending')"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    mine = Claims()
    assert mine.take("tests: ending")
    mine.close()
