"""The status and the settings that a CRI runtime reports."""

import json
from pathlib import Path

from sampan.runtimes.contract import RuntimeHandler
from sampan.runtimes.cri import runtime_status
from sampan.runtimes.cri.client import load

_NETWORK = {"PluginConfDir": "/etc/cni/net.d", "PluginDirs": ["/opt/cni/bin", "/usr/lib/cni"]}


def _config(*, is_systemd: bool) -> str:
    runc = {"options": {"SystemdCgroup": is_systemd}}
    return json.dumps({"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": runc}}})


def test_settings_are_parsed_from_the_status_info() -> None:
    info = {"cniconfig": json.dumps(_NETWORK), "config": _config(is_systemd=True)}
    cri_settings = runtime_status.parse_settings(info, has_systemd=None)
    assert cri_settings.network_directory == Path("/etc/cni/net.d")
    assert cri_settings.plugin_directories == (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
    assert cri_settings.has_systemd_cgroups
    assert not runtime_status.parse_settings(
        info, has_systemd=False
    ).has_systemd_cgroups  # the value of RuntimeConfig takes precedence


def test_empty_or_invalid_status_info_gives_default_settings() -> None:
    assert runtime_status.parse_settings({}, has_systemd=None) == runtime_status.CriSettings()
    assert (
        runtime_status.parse_settings({"config": "no JSON", "cniconfig": "[]"}, has_systemd=None)
        == runtime_status.CriSettings()
    )


def test_status_has_errors_handlers_and_features() -> None:
    cri = load()
    ready = cri.RuntimeCondition(type="RuntimeReady", status=True)
    waits = cri.RuntimeCondition(
        type="NetworkReady", reason="NetworkPluginNotReady", message="cni plugin not initialized"
    )
    handlers = [cri.RuntimeHandler(name="runc"), cri.RuntimeHandler(name="")]
    handlers[0].features.recursive_read_only_mounts = True
    response = cri.StatusResponse(
        status=cri.RuntimeStatus(conditions=[ready, waits]),
        runtime_handlers=handlers,
        features=cri.RuntimeFeatures(supplemental_groups_policy=True),
    )
    status = runtime_status.status(response)
    assert status.errors == [
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
        "message:cni plugin not initialized"
    ]
    assert status.handlers == [RuntimeHandler(), RuntimeHandler(name="runc", has_recursive_read_only=True)]
    assert status.heeds_groups_policy
    assert not runtime_status.is_network_ready(response)


def test_missing_network_condition_is_an_error() -> None:
    cri = load()
    ready = cri.RuntimeCondition(type="RuntimeReady", status=True)
    status = runtime_status.status(cri.StatusResponse(status=cri.RuntimeStatus(conditions=[ready])))
    assert status.errors == ["container runtime network not ready: <nil>"]
    assert (status.handlers, status.heeds_groups_policy) == ([], None)
