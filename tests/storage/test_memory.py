"""The memory store passes the suite that every store passes."""

import pytest

pytest.register_assert_rewrite("sampan.testing.backend_conformance")

from sampan.machinery.clock import VirtualClock  # noqa: E402
from sampan.storage.memory import MemoryBackend  # noqa: E402
from sampan.testing.backend_conformance import CHECKS, Check, Subject, run  # noqa: E402


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check) -> None:
    clock = VirtualClock()
    run(check, Subject(open=lambda: MemoryBackend(clock=clock), advance=clock.advance, is_local=True))
