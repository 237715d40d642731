"""Which runtime it is, and why."""

import asyncio
from pathlib import Path

import pytest

from sampan.runtimes.choice import ORDER, DetectedRuntimes, NoRuntime, choose, choose_runtime, detect
from sampan.runtimes.names import AUTO, CRI, DOCKER, OCI, PROCESS
from tests.runtimes import engines

EVERY = {name: (f"/{name}", f"some {name}") for name in ORDER}


@pytest.mark.parametrize("best", ORDER)
def test_the_best_there_is(best: str) -> None:
    behind = ORDER[ORDER.index(best) :]
    detected = DetectedRuntimes(
        usable={name: EVERY[name] for name in behind}, errors={name: "broken" for name in ORDER if name not in behind}
    )
    choice = choose(detected)
    assert (choice.runtime, choice.endpoint) == (best, f"/{best}")
    assert f"some {best}" in choice.why
    assert choice.why.count("broken") == ORDER.index(best)


def test_what_was_asked_for() -> None:
    assert choose(DetectedRuntimes(usable=EVERY), DOCKER).runtime == DOCKER
    with pytest.raises(NoRuntime, match="docker: not running"):
        choose(DetectedRuntimes(usable={CRI: EVERY[CRI]}, errors={DOCKER: "not running"}), DOCKER)
    with pytest.raises(NoRuntime, match="not oci: gone; not cri: gone"):
        choose(DetectedRuntimes(errors={CRI: "gone", OCI: "gone"}))


def test_an_endpoint_that_is_named(tmp_path: Path) -> None:
    """Nothing else is looked for."""
    with pytest.raises(NoRuntime, match="there is no unix:///none"):
        asyncio.run(choose_runtime(AUTO, "unix:///none"))
    with pytest.raises(NoRuntime, match="oci has no endpoint"):
        asyncio.run(choose_runtime(OCI, "/none"))
    deaf = tmp_path / "deaf.sock"
    deaf.touch()
    with pytest.raises(NoRuntime, match=r"not cri: .*deaf\.sock.*; not docker: .*deaf\.sock"):
        asyncio.run(choose_runtime(AUTO, str(deaf)))


def test_without_engines(tmp_path: Path) -> None:
    deaf = tmp_path / "deaf.sock"
    deaf.touch()
    sockets = {"cri_sockets": [str(deaf)], "docker_sockets": [str(tmp_path / "none.sock")]}
    detected = asyncio.run(detect(AUTO, order=(CRI, DOCKER), **sockets))
    assert str(deaf) in detected.errors[CRI]
    assert detected.errors[DOCKER] == "no socket of the Docker Engine"
    with pytest.raises(NoRuntime):
        choose(detected)  # never plain processes, unless they are asked for
    assert choose(asyncio.run(detect(PROCESS)), PROCESS).runtime == PROCESS


@pytest.mark.skipif(bool(engines.missing("containerd", "runc")), reason=engines.missing("containerd", "runc"))
def test_an_engine_that_answers() -> None:
    with engines.containerd() as engine:
        detected = asyncio.run(detect(CRI, cri_sockets=["/none", str(engine.socket)]))
        named = asyncio.run(choose_runtime(AUTO, f"unix://{engine.socket}"))
    choice = choose(detected, CRI)
    assert (choice.runtime, choice.endpoint) == (CRI, str(engine.socket))
    assert (named.runtime, named.endpoint) == (CRI, f"unix://{engine.socket}")
    assert "containerd 1." in choice.why or "containerd 2." in choice.why
