"""The choice of the runtime, and the reason that is shown for it."""

import asyncio
from pathlib import Path

import pytest

from sampan.runtimes.choice import ORDER, DetectedRuntimes, NoRuntime, choose, choose_runtime, detect
from sampan.runtimes.names import AUTO, CRI, DOCKER, OCI, PROCESS
from tests.runtimes import engines

ALL_RUNTIMES = {name: (f"/{name}", f"some {name}") for name in ORDER}


@pytest.mark.parametrize("best", ORDER)
def test_first_usable_runtime_in_order_is_chosen(best: str) -> None:
    remaining = ORDER[ORDER.index(best) :]
    detected = DetectedRuntimes(
        usable={name: ALL_RUNTIMES[name] for name in remaining},
        errors={name: "broken" for name in ORDER if name not in remaining},
    )
    choice = choose(detected)
    assert (choice.runtime, choice.endpoint) == (best, f"/{best}")
    assert f"some {best}" in choice.why
    assert choice.why.count("broken") == ORDER.index(best)


def test_requested_runtime_is_chosen_or_the_error_names_the_reason() -> None:
    assert choose(DetectedRuntimes(usable=ALL_RUNTIMES), DOCKER).runtime == DOCKER
    with pytest.raises(NoRuntime, match="docker: not running"):
        choose(DetectedRuntimes(usable={CRI: ALL_RUNTIMES[CRI]}, errors={DOCKER: "not running"}), DOCKER)
    with pytest.raises(NoRuntime, match="not oci: gone; not cri: gone"):
        choose(DetectedRuntimes(errors={CRI: "gone", OCI: "gone"}))


def test_given_endpoint_is_the_only_candidate(tmp_path: Path) -> None:
    """No other endpoint is tried."""
    with pytest.raises(NoRuntime, match="there is no unix:///none"):
        asyncio.run(choose_runtime(AUTO, "unix:///none"))
    with pytest.raises(NoRuntime, match="oci has no endpoint"):
        asyncio.run(choose_runtime(OCI, "/none"))
    unresponsive = tmp_path / "unresponsive.sock"
    unresponsive.touch()
    with pytest.raises(NoRuntime, match=r"not cri: .*unresponsive\.sock.*; not docker: .*unresponsive\.sock"):
        asyncio.run(choose_runtime(AUTO, str(unresponsive)))


def test_process_runtime_is_chosen_only_on_request(tmp_path: Path) -> None:
    unresponsive = tmp_path / "unresponsive.sock"
    unresponsive.touch()
    sockets = {"cri_sockets": [str(unresponsive)], "docker_sockets": [str(tmp_path / "none.sock")]}
    detected = asyncio.run(detect(AUTO, order=(CRI, DOCKER), **sockets))
    assert str(unresponsive) in detected.errors[CRI]
    assert detected.errors[DOCKER] == "no socket of the Docker Engine"
    with pytest.raises(NoRuntime):
        choose(detected)  # plain processes are used only on request
    assert choose(asyncio.run(detect(PROCESS)), PROCESS).runtime == PROCESS


@pytest.mark.skipif(
    bool(engines.missing_requirement("containerd", "runc")), reason=engines.missing_requirement("containerd", "runc")
)
def test_running_containerd_is_detected() -> None:
    with engines.containerd() as engine:
        detected = asyncio.run(detect(CRI, cri_sockets=["/none", str(engine.socket)]))
        choice_of_endpoint = asyncio.run(choose_runtime(AUTO, f"unix://{engine.socket}"))
    choice = choose(detected, CRI)
    assert (choice.runtime, choice.endpoint) == (CRI, str(engine.socket))
    assert (choice_of_endpoint.runtime, choice_of_endpoint.endpoint) == (CRI, f"unix://{engine.socket}")
    assert "containerd 1." in choice.why or "containerd 2." in choice.why
