"""Invalid arguments of `Cluster(…)` raise an error that names the argument in one line."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sampan.host.clock import VirtualClock
from sampan.runtimes import choice
from sampan.runtimes.choice import NoRuntime
from sampan.runtimes.hollow.behavior import StageError
from sampan.testing import Cluster
from sampan.testing.cluster import _simplify


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"nodes": -1}, ValueError, "nodes: cannot be negative, and is -1"),
        ({"nodes": "x"}, TypeError, "nodes: must be an integer, not str"),
        ({"nodes": True}, TypeError, "nodes: must be an integer, not bool"),
        ({"nodes": 1, "components": ("apiserver",)}, ValueError, "nodes: needs 'kubelet'"),
        ({"components": ("x",)}, ValueError, "components: there is no 'x'; supported: apiserver, controllers"),
        ({"components": "apiserver"}, TypeError, "components: must be a sequence of strings, not str"),
        ({"components": ()}, ValueError, "components: 'apiserver' cannot be left out"),
        ({"controllers": ("x",)}, ValueError, 'controllers: "x" is not in the list of known controllers'),
        ({"controllers": "*"}, TypeError, "controllers: must be a sequence of strings, not str"),
        ({"controllers": (1,)}, TypeError, "controllers: must be a sequence of strings, not tuple"),
        ({"store": "foo"}, ValueError, 'store: \'foo\' is neither "memory" nor "sqlite"'),
        ({"store": "tcp://127.0.0.1:1"}, ValueError, "store: 'tcp://127.0.0.1:1' is not a URL of etcd"),
        ({"store": "/nowhere/x.db"}, ValueError, "store: '/nowhere/x.db': there is no directory /nowhere"),
        ({"store": Path("/nowhere/x.db")}, ValueError, "store: '/nowhere/x.db': there is no directory /nowhere"),
        ({"store": 1}, TypeError, "store: must be a string, a path or a StoreConfig, not int"),
        (
            {"runtime": "foo"},
            ValueError,
            "runtime: there is no 'foo'; supported: auto, cri, docker, oci, process, hollow",
        ),
        ({"level": "everything"}, ValueError, "level: there is no 'everything'; supported: api, controllers, nodes"),
        ({"hollow_stages": "f.yaml"}, TypeError, "hollow_stages: must be a pathlib.Path, not str"),
        ({"hollow_stages": Path("/nowhere")}, StageError, "/nowhere: cannot be read"),
        ({"runtime_config": "a"}, TypeError, "runtime_config: must be a mapping from API versions to booleans"),
        ({"runtime_config": {"a": 1}}, TypeError, "runtime_config: must be a mapping from API versions to booleans"),
        ({"runtime_config": {"a/b/c": True}}, ValueError, "runtime_config: "),
        (
            {"clock": VirtualClock},
            TypeError,
            'clock: must be "real", "virtual" or a clock such as VirtualClock(), not a class',
        ),
        ({"clock": 3}, TypeError, 'clock: must be "real", "virtual" or a clock such as VirtualClock(), not int'),
        (
            {"clock": "slow"},
            TypeError,
            'clock: must be "real", "virtual" or a clock such as VirtualClock(), not \'slow\'',
        ),
        ({"scheduler": {}}, TypeError, "scheduler: must be a SchedulerConfig, not dict"),
        ({"leader_election": True}, TypeError, "leader_election: must be a LeadershipConfig, not bool"),
        ({"insecure": "no"}, TypeError, "insecure: must be True or False, not str"),
    ],
    ids=str,
)
def test_invalid_arguments_are_rejected_by_the_constructor(
    options: dict[str, Any], kind: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind) as raised:
        Cluster(**options)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_invalid_stage_file_raises_stage_error(tmp_path: Path) -> None:
    stages = tmp_path / "stages.yaml"
    stages.write_text("stages:\n- redy: 3s\n")
    with pytest.raises(StageError, match="redy"):
        Cluster(nodes=1, hollow_stages=stages)


def test_unavailable_runtime_raises_no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "detect", _detect_no_runtime)
    with pytest.raises(NoRuntime, match="docker: no socket of the Docker Engine"), Cluster(nodes=1, runtime="docker"):
        pass


async def _detect_no_runtime(*names: Any, **options: Any) -> Any:
    from sampan.runtimes.choice import DetectedRuntimes

    return DetectedRuntimes(errors={"docker": "no socket of the Docker Engine"})


def test_store_error_is_not_wrapped_in_an_exception_group(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    file.write_text("no database, and long enough to be read" * 100)
    with pytest.raises(Exception, match="is not a Sampan store") as raised, Cluster(store=file):
        pass
    assert not isinstance(raised.value, ExceptionGroup)


def test_run_before_start_raises_runtime_error() -> None:
    async def work() -> None: ...

    for work_item in (None, work()):
        with pytest.raises(RuntimeError, match="the cluster is not running yet"):
            Cluster().run(work_item)  # type: ignore[arg-type]


def test_run_rejects_a_value_that_is_no_coroutine() -> None:
    with Cluster(components=("apiserver",)) as cluster, pytest.raises(TypeError, match="must be a coroutine, not None"):
        cluster.run(None)  # type: ignore[arg-type]


def test_single_error_in_nested_groups_is_unwrapped() -> None:
    error = StageError("x")
    assert _simplify(ExceptionGroup("", [ExceptionGroup("", [error])])) is error


def test_several_errors_are_listed_in_one_message() -> None:
    simplified = _simplify(ExceptionGroup("", [StageError("x"), ExceptionGroup("", [KeyError("y"), StageError("x")])]))
    assert isinstance(simplified, RuntimeError)
    assert str(simplified) == "the cluster has failed with 3 errors: StageError: x; KeyError: 'y'"


def test_exception_group_with_cancellation_is_kept() -> None:
    group = BaseExceptionGroup("", [asyncio.CancelledError(), StageError("x")])
    assert _simplify(group) is group
