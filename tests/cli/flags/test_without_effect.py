"""Command lines of real components: flags without effect are named, unsupported flags that matter are rejected."""

from __future__ import annotations

from importlib import import_module

import click
import pytest

from sampan.cli.flags.without_effect import component_flags, drop_flags
from sampan.cli.main import COMMANDS

KUBEADM = {
    "kube-apiserver": (
        "--advertise-address=192.0.2.1 --allow-privileged=true --authorization-mode=Node,RBAC "
        "--client-ca-file=/pki/ca.crt --enable-admission-plugins=NodeRestriction --enable-bootstrap-token-auth=true "
        "--etcd-cafile=/pki/etcd/ca.crt --etcd-certfile=/pki/client.crt --etcd-keyfile=/pki/client.key "
        "--etcd-servers=https://127.0.0.1:2379 --kubelet-client-certificate=/pki/kubelet.crt "
        "--kubelet-client-key=/pki/kubelet.key --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname "
        "--proxy-client-cert-file=/pki/front.crt --proxy-client-key-file=/pki/front.key "
        "--requestheader-allowed-names=front-proxy-client --requestheader-client-ca-file=/pki/front-ca.crt "
        "--requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group "
        "--requestheader-username-headers=X-Remote-User --secure-port=6443 "
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local --service-account-key-file=/pki/sa.pub "
        "--service-account-signing-key-file=/pki/sa.key --service-cluster-ip-range=10.96.0.0/12 "
        "--tls-cert-file=/pki/apiserver.crt --tls-private-key-file=/pki/apiserver.key"
    ),
    "kube-controller-manager": (
        "--allocate-node-cidrs=true --authentication-kubeconfig=/c.conf --authorization-kubeconfig=/c.conf "
        "--bind-address=127.0.0.1 --client-ca-file=/pki/ca.crt --cluster-cidr=10.244.0.0/16 --cluster-name=kubernetes "
        "--cluster-signing-cert-file=/pki/ca.crt --cluster-signing-key-file=/pki/ca.key "
        "--controllers=*,bootstrapsigner,tokencleaner --kubeconfig=/c.conf --leader-elect=true "
        "--requestheader-client-ca-file=/pki/front-ca.crt --root-ca-file=/pki/ca.crt "
        "--service-account-private-key-file=/pki/sa.key --service-cluster-ip-range=10.96.0.0/12 "
        "--use-service-account-credentials=true"
    ),
    "kube-scheduler": (
        "--authentication-kubeconfig=/s.conf --authorization-kubeconfig=/s.conf --bind-address=127.0.0.1 "
        "--kubeconfig=/s.conf --leader-elect=true"
    ),
    "kubelet": (
        "--bootstrap-kubeconfig=/b.conf --kubeconfig=/k.conf --config=/config.yaml "
        "--container-runtime-endpoint=unix:///run/containerd/containerd.sock --node-ip=192.0.2.1 "
        "--node-labels=a=b --pod-infra-container-image=pause:3.10 --register-with-taints=a=b:NoSchedule"
    ),
    "kube-proxy": "--config=/config.conf --hostname-override=node-1",
}
"""The flags that kubeadm writes."""
MESSAGES = {
    "kube-apiserver": "",
    "kube-controller-manager": (
        "kube-controller-manager: --authentication-kubeconfig, --authorization-kubeconfig, --client-ca-file, "
        "--cluster-name, --requestheader-client-ca-file have no effect in Sampan\n"
    ),
    "kube-scheduler": (
        "kube-scheduler: --authentication-kubeconfig, --authorization-kubeconfig have no effect in Sampan\n"
    ),
    "kubelet": "kubelet: --pod-infra-container-image has no effect in Sampan\n",
    "kube-proxy": "",
}


def command_of(component: str) -> click.Command:
    command: click.Command = import_module(COMMANDS[component][0]).command
    return command


@pytest.mark.parametrize("component", KUBEADM)
def test_the_command_lines_of_kubeadm_are_accepted(component: str, capsys: pytest.CaptureFixture[str]) -> None:
    context = command_of(component).make_context(component, KUBEADM[component].split())
    assert context.args == []
    assert capsys.readouterr().err == MESSAGES[component]


def test_flags_without_effect_are_named_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--vmodule=a=4", "--profiling", "false", "--kubeconfig", "/s.conf", "--log-flush-frequency=5s"]
    context = command_of("kube-scheduler").make_context("kube-scheduler", words)
    assert "/s.conf" in context.params.values()
    error = "kube-scheduler: --profiling, --log-flush-frequency have no effect in Sampan\n"
    assert capsys.readouterr().err == error


@pytest.mark.parametrize("flag", ["--audit-webhook-mode=blocking", "--tls-curve-preferences=a", "--etcd-prefix=/x"])
def test_unsupported_flags_that_change_behavior_are_rejected(flag: str) -> None:
    with pytest.raises(click.UsageError):
        command_of("kube-apiserver").make_context("kube-apiserver", [flag])


def test_flags_with_fixed_values_reject_other_values() -> None:
    words = ["--cpu-manager-policy=none", "--cloud-provider", "", "--protect-kernel-defaults=false", "--enable-server"]
    assert command_of("kubelet").make_context("kubelet", [*words, "--memory-manager-policy", "None"]).args == []
    with pytest.raises(click.UsageError, match="--cpu-manager-policy: Sampan supports only none, not 'static'"):
        command_of("kubelet").make_context("kubelet", ["--cpu-manager-policy", "static"])
    name = "kube-controller-manager"
    with pytest.raises(click.UsageError, match="--cloud-provider: Sampan supports only an empty value or external"):
        command_of(name).make_context(name, ["--cloud-provider=gce"])


def test_flag_implemented_by_the_command_is_not_dropped() -> None:
    assert "profiling" in component_flags("kube-proxy")
    context = command_of("kube-proxy").make_context("kube-proxy", ["--profiling=true"])
    assert context.params["profiling"] is True


def test_drop_flags_also_removes_a_separate_value() -> None:
    assert drop_flags(["--a", "1", "--b", "--c=2", "x"], {"--a", "--c"}) == (["--b", "x"], ["--a", "--c"])
