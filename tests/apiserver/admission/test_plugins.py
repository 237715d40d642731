from pathlib import Path

import pytest

from sampan.apiserver.admission.configuration import ConfigurationError, read_configurations
from sampan.apiserver.admission.plugins import CONFIGURED, OFF, PLUGINS, UnknownPlugin, default_plugins


def names(disabled: tuple[str, ...] = (), enabled: tuple[str, ...] = ()) -> list[str]:
    return [plugin.name for plugin in default_plugins(disabled, enabled)]


def test_every_plugin_has_the_name_it_is_listed_under() -> None:
    assert all(make().name == name for name, make in PLUGINS.items() if make is not None)
    assert PLUGINS.keys() >= OFF
    assert {name for name, make in PLUGINS.items() if make is None} <= CONFIGURED.keys() & OFF


def test_switching_keeps_the_order() -> None:
    assert names() == [name for name in PLUGINS if name not in OFF]
    simple = [name for name, make in PLUGINS.items() if make is not None]
    assert names(enabled=tuple(reversed(simple))) == simple
    assert names(disabled=("Priority",)) == [name for name in names() if name != "Priority"]


@pytest.mark.parametrize("where", ["disabled", "enabled"])
def test_an_unknown_name_is_an_error_that_names_it(where: str) -> None:
    with pytest.raises(UnknownPlugin, match="'Nonsense'"):
        names(**{where: ("Priority", "Nonsense")})


def test_configurations_must_be_for_those_that_take_one() -> None:
    with pytest.raises(ConfigurationError, match="EventRateLimit: needs a configuration"):
        default_plugins(enabled=["EventRateLimit"])
    with pytest.raises(ConfigurationError, match="Priority: takes no configuration"):
        default_plugins(configurations={"Priority": {}})
    with pytest.raises(UnknownPlugin, match="'Nonsense'"):
        default_plugins(configurations={"Nonsense": {}})


def test_configurations_stand_in_the_file_or_beside_it(tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text("limits: [{type: Server, qps: 1, burst: 2}]")
    file = tmp_path / "admission.yaml"
    file.write_text(
        "kind: AdmissionConfiguration\n"
        "plugins:\n"
        "- {name: EventRateLimit, path: limits.yaml}\n"
        "- {name: PodNodeSelector, configuration: {podNodeSelectorPluginConfig: {ns: a=b}}}\n"
        "- {name: ImagePolicyWebhook, configuration: {imagePolicy: {kubeConfigFile: kube}}}\n"
    )
    found = read_configurations(file)
    assert found["EventRateLimit"] == {"limits": [{"type": "Server", "qps": 1, "burst": 2}]}
    assert found["PodNodeSelector"] == {"podNodeSelectorPluginConfig": {"ns": "a=b"}}
    assert found["ImagePolicyWebhook"] == {"imagePolicy": {"kubeConfigFile": str(tmp_path / "kube")}}


@pytest.mark.parametrize(
    ("text", "fault"),
    [("kind: Other", "kind must be"), ("[", "while parsing"), ("a", "not an object"), (None, "No such file")],
)
def test_faulty_files(tmp_path: Path, text: str | None, fault: str) -> None:
    file = tmp_path / "admission.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError, match=fault):
        read_configurations(file)
