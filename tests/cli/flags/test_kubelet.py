"""The kubelet's flags, its configuration file, and its flags file."""

from pathlib import Path

import pytest

from sampan.cli.components import kubelet
from sampan.cli.flags.kubelet import agent_config, flags_file, read_config, settings
from sampan.kubelet.agent.config import HARD_EVICTION, ShutdownGroup
from sampan.machinery.cli_errors import CliError

CONFIG = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 20
clusterDNS: [10.0.0.10]
evictionHard: {memory.available: 200Mi}
nodeStatusUpdateFrequency: 5s
registerWithTaints: [{key: a, value: b, effect: NoSchedule}]
authentication: {anonymous: {enabled: true}}
"""


def test_defaults_match_the_real_kubelet() -> None:
    config = agent_config(settings({}), Path("/r"), Path("/l"))
    assert (config.max_pods, config.kubelet.status_s, config.relist_s) == (110, 10.0, 60.0)
    assert (config.kubelet.lease_duration_s, config.kubelet.renew_s) == (40, 10.0)
    assert config.eviction_hard["nodefs.available"] == "10%"
    assert config.container_log_max_bytes == 10 << 20


def test_flags_override_the_configuration_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    file = read_config(str(path))
    configuration = settings({"max_pods": 30, "node_labels": "a=b,c=d", "eviction_soft": "memory.available<1Gi"}, file)
    config = agent_config(configuration, Path("/r"), Path("/l"))
    assert (config.max_pods, config.cluster_dns) == (30, ["10.0.0.10"])
    assert config.labels == {"a": "b", "c": "d"}
    assert (config.eviction_hard, config.eviction_soft) == ({"memory.available": "200Mi"}, {"memory.available": "1Gi"})
    assert (config.kubelet.status_s, config.kubelet.renew_s) == (5.0, 10.0)
    assert (config.taints[0].key, config.taints[0].effect) == ("a", "NoSchedule")
    assert configuration["anonymous-auth"] is True


@pytest.mark.parametrize(
    ("text", "message"),
    [("kind: Other", "want a KubeletConfiguration"), (f"{CONFIG}maxPodz: 3", "unknown fields: maxPodz")],
)
def test_invalid_configuration_file_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(CliError, match=message):
        read_config(str(path))


def test_invalid_taint_flag_is_rejected() -> None:
    with pytest.raises(CliError, match="--register-with-taints: want K=V:EFFECT"):
        settings({"register_with_taints": "a=b:Sometimes"})


def test_flags_file_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "kubelet"
    path.write_text('# classic\nKUBELET_ADDRESS="--address=127.0.0.1"\nKUBELET_ARGS="--v=2 --max-pods=5"\n\n--port 1\n')
    assert flags_file(path) == ["--address=127.0.0.1", "--v=2", "--max-pods=5", "--port", "1"]
    assert flags_file(tmp_path / "none") == []


def test_command_line_overrides_the_flags_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kubelet"
    path.write_text('KUBELET_ARGS="--max-pods=5 --node-labels=a=b"\n')
    monkeypatch.setattr(kubelet, "flags_file", lambda: flags_file(path))
    parameters = kubelet.command.make_context("kubelet", ["--max-pods", "7"]).params
    assert (parameters["max_pods"], parameters["node_labels"]) == (7, "a=b")


def test_configuration_fields_without_effect_are_logged_and_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Tools that set up clusters write such files; all other fields take effect."""
    path = tmp_path / "config.yaml"
    more = "cgroupDriver: systemd\nmemorySwap: {}\nhealthzPort: 10249\nvolumeStatsAggPeriod: 0s\n"
    more += "crashLoopBackOff: {maxContainerRestartPeriod: 30s}\nmergeDefaultEvictionSettings: true\npodPidsLimit: 64\n"
    path.write_text(
        CONFIG + more + "shutdownGracePeriodByPodPriority: [{priority: 5, shutdownGracePeriodSeconds: 9}]\n"
    )
    config = agent_config(settings({}, read_config(str(path))), Path("/r"), Path("/l"))
    assert "ignoring fields that have no effect: cgroupDriver, memorySwap, volumeStatsAggPeriod" in caplog.text
    assert (config.kubelet.longest_pause_s, config.pod_pids) == (30.0, 64)
    assert config.eviction_hard == {**HARD_EVICTION, "memory.available": "200Mi"}
    assert config.shutdown_groups == [ShutdownGroup(5, 9)]


def test_manifest_url_headers_host_network_sources_and_allow_privileged() -> None:
    configuration = settings({"manifest_url_header": "X-Key:secret,B:c", "host_network_sources": "file,api"})
    config = agent_config({**configuration, "allow-privileged": False}, Path("/r"), Path("/l"))
    assert config.static_url_headers == {"X-Key": "secret", "B": "c"}
    assert (config.host_network_sources, config.allows_privileged) == (["file", "api"], False)


def test_tls_cipher_suites_of_the_configuration_file_are_applied(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    path.write_text(f"{CONFIG}tlsMinVersion: VersionTLS12\ntlsCipherSuites: [{suite}]\n")
    values = settings({}, read_config(str(path)))
    ports = kubelet._ports(values, agent_config(values, Path("/r"), Path("/l")))
    tls_12_suites = [cipher["name"] for cipher in ports.tls.get_ciphers() if cipher["protocol"] == "TLSv1.2"]
    assert tls_12_suites == ["ECDHE-ECDSA-AES256-GCM-SHA384"]
    wrong = settings({"tls_cipher_suites": "TLS_ODD"})
    with pytest.raises(CliError, match="--tls-cipher-suites: cipher suite TLS_ODD does not exist"):
        kubelet._ports(wrong, agent_config(wrong, Path("/r"), Path("/l")))


def test_feature_gates_of_flag_and_file_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"{CONFIG}featureGates: {{EmptyDirVolumeMode: true, PodsAPI: true}}\n")
    configuration = settings({"feature_gates": "PodsAPI=false"}, read_config(str(path)))
    gates = agent_config(configuration, Path("/r"), Path("/l")).kubelet.feature_gates
    assert (gates.is_enabled("EmptyDirVolumeMode"), gates.is_enabled("PodsAPI")) == (True, False)
    with pytest.raises(CliError, match="--feature-gates: unrecognized feature gate: None"):
        agent_config(settings({"feature_gates": "None=true"}), Path("/r"), Path("/l"))


@pytest.mark.parametrize(
    ("sysctls", "message"),
    [
        ({"kernel.shmall": "1", "net/ipv4/ip_forward": "1"}, ""),
        ({"Net.X": "1"}, '"Net.X" is not a valid sysctl name for defaultPodSysctls'),
        ({"vm.swappiness": "1"}, '"vm.swappiness" is not known to be namespaced for defaultPodSysctls'),
        ({"net.a": "1", "net/a": "2"}, 'duplicate sysctl "net.a" found in defaultPodSysctls'),
    ],
)
def test_default_sysctls_of_pods_are_checked(sysctls: dict[str, str], message: str) -> None:
    file = {"defaultPodSysctls": sysctls}
    if not message:
        configuration = settings({"feature_gates": "DefaultPodSysctls=true"}, file)
        expected = {"kernel.shmall": "1", "net.ipv4.ip_forward": "1"}
        assert agent_config(configuration, Path("/r"), Path("/l")).default_pod_sysctls == expected
        with pytest.raises(CliError, match="DefaultPodSysctls feature gate is required"):
            agent_config(settings({}, file), Path("/r"), Path("/l"))
        return
    configuration = settings({"feature_gates": "DefaultPodSysctls=true"}, file)
    with pytest.raises(CliError, match=message):
        agent_config(configuration, Path("/r"), Path("/l"))
