from pathlib import Path

import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.apiserver.admission.default_toleration_seconds import TolerationDefaults
from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError, read_configurations
from sampan.apiserver.admission.framework.metrics import AdmissionMetrics
from sampan.apiserver.admission.plugins import PLUGINS, PluginContext, UnknownAdmissionPlugin, default_plugins
from sampan.machinery.telemetry.metrics import Metrics


def names(disabled: tuple[str, ...] = (), enabled: tuple[str, ...] = ()) -> list[str]:
    return [row.plugin.name for row in default_plugins(disabled, enabled)]


def test_every_plugin_has_the_name_it_is_listed_under() -> None:
    context = PluginContext(
        metrics=AdmissionMetrics(metrics=Metrics()),
        tolerations=TolerationDefaults(),
        webhooks=None,
        feature_gates=FeatureGates(),
    )
    assert all(row.make(context).plugin.name == name for name, row in PLUGINS.items() if row.make is not None)


def test_a_plugin_that_requires_a_configuration_is_not_enabled_by_default() -> None:
    rows = [row for row in PLUGINS.values() if row.make is None]
    assert rows
    assert all(row.make_configured is not None and not row.is_default for row in rows)


def test_a_plugin_is_registered_for_every_phase_that_it_implements() -> None:
    for row in default_plugins(enabled=[name for name, row in PLUGINS.items() if row.make is not None]):
        assert (row.mutating is not None) == hasattr(row.plugin, "admit"), row.plugin.name
        assert (row.validating is not None) == hasattr(row.plugin, "validate"), row.plugin.name


def test_enabling_and_disabling_plugins_keeps_their_order() -> None:
    assert names() == [name for name, row in PLUGINS.items() if row.is_default]
    simple = [name for name, row in PLUGINS.items() if row.make is not None]
    assert names(enabled=tuple(reversed(simple))) == simple
    assert names(disabled=("Priority",)) == [name for name in names() if name != "Priority"]


@pytest.mark.parametrize("parameter", ["disabled", "enabled"])
def test_unknown_plugin_name_is_rejected(parameter: str) -> None:
    with pytest.raises(UnknownAdmissionPlugin, match="'Nonsense'"):
        names(**{parameter: ("Priority", "Nonsense")})


def test_missing_and_unexpected_plugin_configurations_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="EventRateLimit: needs a configuration"):
        default_plugins(enabled=["EventRateLimit"])
    with pytest.raises(ConfigurationError, match="Priority: takes no configuration"):
        default_plugins(configurations={"Priority": {}})
    with pytest.raises(UnknownAdmissionPlugin, match="'Nonsense'"):
        default_plugins(configurations={"Nonsense": {}})


def test_configurations_are_read_inline_and_from_referenced_files(tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text("limits: [{type: Server, qps: 1, burst: 2}]")
    file = tmp_path / "admission.yaml"
    file.write_text(
        "kind: AdmissionConfiguration\n"
        "plugins:\n"
        "- {name: EventRateLimit, path: limits.yaml}\n"
        "- {name: PodNodeSelector, configuration: {podNodeSelectorPluginConfig: {ns: a=b}}}\n"
        "- {name: ImagePolicyWebhook, configuration: {imagePolicy: {kubeConfigFile: kube}}}\n"
    )
    configurations = read_configurations(file)
    assert configurations["EventRateLimit"] == {"limits": [{"type": "Server", "qps": 1, "burst": 2}]}
    assert configurations["PodNodeSelector"] == {"podNodeSelectorPluginConfig": {"ns": "a=b"}}
    assert configurations["ImagePolicyWebhook"] == {"imagePolicy": {"kubeConfigFile": str(tmp_path / "kube")}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Other", "kind must be"),
        ("[", "did not find expected node content"),
        ("a", "not an object"),
        (None, "No such file"),
    ],
)
def test_invalid_configuration_files_are_rejected(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "admission.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        read_configurations(file)


@pytest.mark.parametrize("is_enabled", [False, True])
def test_mutating_policies_need_their_gate(is_enabled: bool) -> None:
    gates = FeatureGates({"MutatingAdmissionPolicy": is_enabled}, level=37)
    plugins = [row.plugin.name for row in default_plugins(feature_gates=gates)]
    assert ("MutatingAdmissionPolicy" in plugins) == is_enabled
