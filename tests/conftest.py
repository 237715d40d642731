"""What all tests share: where the reference material lies, Hypothesis profiles, and a watch for leftovers."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", parent=settings.get_profile("ci"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Reference material that lies beside the repository (recordings, schemas, protobuf vectors) and is not part of it."""
    path = Path(os.environ.get("SAMPAN_SHARED", ROOT.parent / "shared"))
    if not path.is_dir():
        pytest.skip("the reference material (../shared) is not here")
    return path


@pytest.fixture(autouse=True)
def _no_threads_left() -> Iterator[None]:
    """A test that leaves a thread behind fails: something was not closed."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    for thread in left:
        thread.join(timeout=5)
    alive = [thread.name for thread in left if thread.is_alive()]
    assert not alive, f"threads left running: {alive}"
