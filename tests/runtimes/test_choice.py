"""Which runtime it is, and why."""

import asyncio
import os
from pathlib import Path

import pytest

from sampan.runtimes import choice
from sampan.runtimes.choice import AUTO, CRI, DOCKER, OCI, ORDER, PROCESS, Found, NoRuntime, choose, look
from tests.runtimes import engines

EVERY = {name: (f"/{name}", f"some {name}") for name in ORDER}


@pytest.mark.parametrize("best", ORDER)
def test_the_best_there_is(best: str) -> None:
    behind = ORDER[ORDER.index(best) :]
    found = Found(
        usable={name: EVERY[name] for name in behind}, faults={name: "broken" for name in ORDER if name not in behind}
    )
    made = choose(found)
    assert (made.runtime, made.place) == (best, f"/{best}")
    assert f"some {best}" in made.why
    assert made.why.count("broken") == ORDER.index(best)


def test_what_was_asked_for() -> None:
    assert choose(Found(usable=EVERY), DOCKER).runtime == DOCKER
    with pytest.raises(NoRuntime, match="docker: not running"):
        choose(Found(usable={CRI: EVERY[CRI]}, faults={DOCKER: "not running"}), DOCKER)
    with pytest.raises(NoRuntime, match="not cri: gone; not process: gone"):
        choose(Found(faults={CRI: "gone", PROCESS: "gone"}))


def test_without_engines(tmp_path: Path) -> None:
    deaf = tmp_path / "deaf.sock"
    deaf.touch()
    found = asyncio.run(look(AUTO, cri_sockets=[str(deaf)], docker_sockets=[str(tmp_path / "none.sock")]))
    assert str(deaf) in found.faults[CRI]
    assert found.faults[DOCKER] == "no socket of the Docker Engine"
    assert choose(found).runtime in ((OCI, PROCESS) if os.geteuid() == 0 else (PROCESS,))
    assert choose(asyncio.run(look(PROCESS)), PROCESS).runtime == PROCESS


@pytest.mark.skipif(bool(engines.missing("containerd", "runc")), reason=engines.missing("containerd", "runc"))
def test_an_engine_that_answers() -> None:
    with engines.containerd() as engine:
        found = asyncio.run(look(AUTO, cri_sockets=["/none", str(engine.socket)], docker_sockets=()))
    made = choose(found)
    assert (made.runtime, made.place) == (choice.CRI, str(engine.socket))
    assert "containerd 1." in made.why or "containerd 2." in made.why
