"""KubeSchedulerConfiguration files: what they change, and what is told of faults."""

from pathlib import Path
from typing import Any

import pytest

from sampan.scheduler.config import DEFAULT_PLUGINS
from sampan.scheduler.config_file import API_VERSION, ConfigError, parse_config, read_config
from sampan.scheduler.registry import UnknownPlugin
from sampan.scheduler.simulation import Simulation


def config(**given: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", **given}


def profile(**plugins: Any) -> Any:
    (found,) = parse_config(config(profiles=[{"plugins": plugins}])).profiles
    return Simulation(profile=found).profile


def names(plugins: Any) -> list[str]:
    return [plugin.name for plugin in plugins]


def test_an_empty_file_is_the_default() -> None:
    found = parse_config(config())
    assert [one.scheduler_name for one in found.profiles] == ["default-scheduler"]
    assert found.profiles[0].plugins == DEFAULT_PLUGINS
    assert (found.queue.first_backoff_s, found.queue.most_backoff_s) == (1, 10)


def test_plugins_are_taken_away_and_weighed_anew() -> None:
    made = profile(
        multiPoint={"disabled": [{"name": "ImageLocality"}], "enabled": [{"name": "TaintToleration", "weight": 9}]},
        score={"disabled": [{"name": "NodeAffinity"}]},
    )
    assert "ImageLocality" not in names(made.plugins)
    assert "NodeAffinity" in names(made.points["filter"])
    assert "NodeAffinity" not in names(made.points["score"])
    assert made.weights["TaintToleration"] == 9
    assert names(made.points["filter"])[:3] == ["NodeUnschedulable", "NodeName", "TaintToleration"]


def test_only_what_is_named() -> None:
    made = profile(
        multiPoint={
            "disabled": [{"name": "*"}],
            "enabled": [{"name": "PrioritySort"}, {"name": "NodeResourcesFit"}, {"name": "DefaultBinder"}],
        }
    )
    assert names(made.points["filter"]) == ["NodeResourcesFit"]
    assert names(made.points["bind"]) == ["DefaultBinder"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kind": "Pod", "apiVersion": "v1"}, "not Pod of v1"),
        (config(profile=[]), "profile"),
        (config(profiles=[{"plugins": {"filters": {}}}]), "no extension point 'filters'"),
        (config(profiles=[{}, {}]), "same schedulerName"),
        (config(podInitialBackoffSeconds=20), "podMaxBackoffSeconds"),
        (config(podInitialBackoffSeconds=0), "greater than 0"),
        (config(extenders=[{"urlPrefix": "http://x"}]), "extenders"),
        (config(profiles=[{"pluginConfig": [{"name": "A"}, {"name": "A"}]}]), "A is there twice"),
    ],
)
def test_faults(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(given)
    assert told in str(caught.value)


def test_a_plugin_that_there_is_not() -> None:
    with pytest.raises(UnknownPlugin, match="Nothing"):
        profile(filter={"enabled": [{"name": "Nothing"}]})


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"apiVersion: {API_VERSION}\nkind: KubeSchedulerConfiguration\npodMaxBackoffSeconds: 60\n")
    assert read_config(path).queue.most_backoff_s == 60
    path.write_text("a: [")
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        read_config(path)
