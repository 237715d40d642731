"""Exceptions of plugins name the plugin, its method, the file and the line, wherever a user meets them."""

import re
from pathlib import Path

import msgspec
import pytest

from sampan.api.types.core_v1 import Pod
from sampan.scheduler.config import DEFAULT_PLUGINS, PluginChoice, ProfileConfig, SchedulerConfig
from sampan.scheduler.explain.explain_endpoint import WHY, ExplainEndpoint
from sampan.scheduler.framework import Handle, NodeView, ScalarPlugin
from sampan.scheduler.framework.plugin_failure import PluginFailure
from sampan.scheduler.simulation import Simulation
from tests.scheduler.running_scheduler import running_scheduler

_FILE = re.escape("(test_plugin_failure.py:")


class WithoutArguments(ScalarPlugin):
    name = "WithoutArguments"

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle)
        self.rack = handle.args["rack"]


class ByRack(ScalarPlugin):
    name = "ByRack"

    def filter_node(self, pod: Pod, node: NodeView) -> str:
        return "" if node.labels["rack"] else "no rack"


class ScoreByRack(ScalarPlugin):
    name = "ScoreByRack"

    def score_node(self, pod: Pod, node: NodeView) -> int:
        return len(node.labels["rack"])


def profile(plugin: str) -> ProfileConfig:
    return ProfileConfig(plugins=(*DEFAULT_PLUGINS, PluginChoice(f"{__name__}:{plugin}")))


def test_an_exception_in_the_constructor() -> None:
    name = re.escape(f"{__name__}:WithoutArguments")
    with pytest.raises(PluginFailure, match=rf"plugin '{name}' failed in __init__ {_FILE}\d+\): KeyError: 'rack'"):
        Simulation(profile=profile("WithoutArguments"))


def test_a_module_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_scheduler_plugin.py").write_text("racks = undefined\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    choice = PluginChoice("broken_scheduler_plugin:ByRack")
    with pytest.raises(PluginFailure, match=r"'broken_scheduler_plugin:ByRack' cannot be loaded: NameError: name"):
        Simulation(profile=ProfileConfig(plugins=(*DEFAULT_PLUGINS, choice)))


@pytest.mark.parametrize(("plugin", "method"), [("ByRack", "filter_node"), ("ScoreByRack", "score_node")])
async def test_event_and_explanation_of_a_pod(plugin: str, method: str) -> None:
    message = rf"plugin '{plugin}' failed in {method} {_FILE}\d+\): KeyError: 'rack'"
    async with running_scheduler(SchedulerConfig(profiles=[profile(plugin)])) as cluster:
        await cluster.node("a")
        await cluster.node("b")
        await cluster.create(cluster.pod("p"))
        await cluster.settle()
        assert [bool(re.fullmatch(message, event.note)) for event in await cluster.events("FailedScheduling")] == [True]
        endpoint = ExplainEndpoint(lambda: cluster.scheduler, cluster.cluster.clock.now)
        response = await endpoint.handle("GET", WHY, {"namespace": "default", "name": "p"}, b"")
        assert response.code == 500
        assert re.fullmatch(message, msgspec.json.decode(response.body)["message"])
