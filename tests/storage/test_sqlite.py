"""The sqlite store passes the suite that every store passes."""

from pathlib import Path

import pytest

pytest.register_assert_rewrite("sampan.testing.backend_conformance")

from sampan.machinery.clock import VirtualClock  # noqa: E402
from sampan.storage.sqlite import SqliteBackend  # noqa: E402
from sampan.testing.backend_conformance import CHECKS, Check, Subject, run  # noqa: E402


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check, tmp_path: Path) -> None:
    clock = VirtualClock()
    path = tmp_path / "state.db"
    run(check, Subject(open=lambda: SqliteBackend(path=path, clock=clock), advance=clock.advance, is_local=True))
