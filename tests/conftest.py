"""What all tests share: where the reference material lies, Hypothesis profiles, and a watch for leftovers."""

import asyncio
import gc
import inspect
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from sampan.api.kubernetes_version import MINOR_VERSION
from tests import transports
from tests.eventually import wait_until
from tests.skips import summarize_skips
from tests.unit_tests import is_unit_test

pytest.register_assert_rewrite("sampan.testing.backend_conformance", "sampan.testing.runtime_conformance")

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
"""Programs that tests begin have no use for the gRPC of the process that they come from."""

_PATIENCE_S = 30
_CHECKERS_S = 600
ROOT = Path(__file__).resolve().parent.parent

settings.register_profile(
    "ci",
    max_examples=60,
    deadline=None,
    derandomize=True,
    print_blob=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", parent=settings.get_profile("ci"), derandomize=False, max_examples=2000)
settings.register_profile("mutants", parent=settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def reference_dir(repository: Path) -> Path:
    """Schemas, protobuf fields and recorded responses of the Kubernetes that this is (`reference/README.md`)."""
    return repository / "reference" / f"v{MINOR_VERSION}"


transports.watch()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--unit", action="store_true", help="run only unit tests, which start no program and no cluster")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_left_out = (
        config.getoption("--unit") and collection_path.match("test_*.py") and not is_unit_test(collection_path)
    )
    return True if is_left_out else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files that take long first, so that no worker is alone with one at the end: the end-to-end tests, and
    those that end up last by their names."""
    first = [ROOT / "tests" / name for name in ("e2e", "cli", "test_repository.py", "testing/test_pytest_plugin.py")]
    items.sort(key=lambda item: next((i for i, path in enumerate(first) if item.path.is_relative_to(path)), len(first)))


def pytest_collection_finish() -> None:
    """What the tests are made of stays: the collection at the end of each module need not look at it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_open() -> Iterator[None]:
    """A module that leaves a connection open fails, with the name of the test that opened it. Set up first, this is
    torn down last: what the module's own fixtures hold is closed by then."""
    yield
    gc.collect()
    assert not (leaked := transports.take_leaks()), "connections left open:\n" + "\n".join(leaked)


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    """A test that leaves a thread or a process behind fails: something was not closed."""
    threads, children = set(threading.enumerate()), _list_children()
    yield
    left = [thread for thread in threading.enumerate() if thread not in threads and not thread.daemon]
    for thread in left:
        thread.join(timeout=_PATIENCE_S)
    assert not (alive := [thread.name for thread in left if thread.is_alive()]), f"threads left running: {alive}"
    assert not (more := _find_leftover_processes(children)), f"processes left running: {sorted(more)}"


def _find_leftover_processes(children: dict[str, str]) -> list[str]:
    """Child processes that the test started and that do not end by themselves. Only those that run now are looked at: a
    node that several tests share starts commands at any time."""
    left = {pid: command for pid, command in _list_children().items() if pid not in children}

    def list_running() -> list[str]:
        return [f"{pid} {command}" for pid, command in left.items() if pid in _list_children()]

    try:
        wait_until(lambda: not list_running(), timeout_s=_PATIENCE_S, poll_s=0.05)
    except TimeoutError:
        return list_running()
    return []


def _list_children() -> dict[str, str]:
    """Child processes and their commands, without those that multiprocessing keeps for itself."""
    pids = {pid for task in Path("/proc/self/task").glob("*/children") for pid in _read(task).split()}
    commands = {pid: _read(Path("/proc", pid, "cmdline")).replace(chr(0), " ").strip() for pid in pids}
    return {pid: command for pid, command in commands.items() if "multiprocessing." not in command}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it ended meanwhile
        return ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report, above pytest's last line, what skipped tests lack, and what failed checkers printed that tools/check.sh
    runs beside the tests."""
    if skipped := terminalreporter.stats.get("skipped"):
        terminalreporter.section(f"{len(skipped)} tests were skipped")
        for line in summarize_skips(report.longrepr[2] for report in skipped):
            terminalreporter.write_line(line)
    if not (directory := os.environ.get("CHECKS")):
        return
    wait_until(Path(directory, "complete").exists, timeout_s=_CHECKERS_S)
    for path in sorted(Path(directory).glob("failed *")):
        terminalreporter.section(f"{path.name.removeprefix('failed ')} has failed", red=True)
        terminalreporter.write(path.read_text(errors="replace"))
