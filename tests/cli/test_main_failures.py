"""Errors of the command line: one line that names the flag."""

import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sampan.cli import status
from sampan.cli.main import cli

FOREIGN_ADDRESS = ("--bind-address", "203.0.113.5")
"""An address that this machine does not have: if an invalid flag is not detected, the command fails at this address
instead of serving for ever."""


class Run:
    def __call__(self, *words: str) -> Result:
        is_server = words[0] in ("up", "kube-apiserver") and "--bind-address" not in words
        return CliRunner().invoke(cli, [*words, *FOREIGN_ADDRESS] if is_server else words)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("SAMPAN_HOME", str(tmp_path))
    return Run()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("up --components foo", "--components: there is no 'foo'; supported: apiserver, controllers"),
        ("up --components controllers", "--components: apiserver cannot be left out"),
        ("up --controllers foo", '--controllers: "foo" is not in the list of known controllers'),
        ("up --secure-port 70000", "--secure-port: 70000 is not a port"),
        ("up --secure-port 0", "--secure-port: 0 needs an --insecure-port"),
        ("up --bind-address here", "--bind-address: 'here' is not an IP address"),
        ("up --advertise-address here", "--advertise-address: 'here' is not an IP address"),
        ("up --bind-address 203.0.113.5", "--bind-address: 203.0.113.5:6443 is not an address of this machine"),
        ("up --service-cluster-ip-range 10.0.0.1/8", "--service-cluster-ip-range: "),
        ("up --service-node-port-range 5", "--service-node-port-range: want two ports as in 30000-32767, not '5'"),
        ("up --event-ttl soon", '--event-ttl: time: invalid duration "soon"'),
        ("up --audit-log-path /nowhere/x", "--audit-log-path: /nowhere/x: there is no directory /nowhere"),
        ("up --audit-policy-file /nowhere", "--audit-policy-file: /nowhere: cannot be read: No such file"),
        ("up --audit-policy-file /dev/null", "--audit-policy-file: /dev/null: Expected `object`, got `null`"),
        ("up --audit-log-maxsize -1", "--audit-log-maxsize: cannot be negative"),
        ("up --encryption-provider-config /nowhere", "--encryption-provider-config: /nowhere: cannot be read: "),
        ("up --encryption-provider-config /dev/null", "--encryption-provider-config: /dev/null: want kind Encrypt"),
        ("up --runtime-config nonsense=true", "--runtime-config: "),
        ("up --feature-gates Nonsense=true", "--feature-gates: unrecognized feature gate: Nonsense"),
        ("up --token-auth-file /nowhere", "--token-auth-file: cannot read /nowhere: No such file or directory"),
        ("up --etcd-servers http://x --etcd-cafile /nowhere", "--etcd-cafile: cannot read /nowhere"),
        (
            "up --authorization-mode Webhook",
            "--authorization-webhook-config-file: required by authorization mode Webhook",
        ),
        (
            "up --authorization-webhook-config-file x",
            "--authorization-webhook-config-file: used only by authorization mode Webhook",
        ),
        ("up --authorization-config /nowhere", "--authorization-config: cannot read /nowhere"),
        ("up --authorization-config /dev/null", "--authorization-config: /dev/null: want a AuthorizationConfiguration"),
        ("up --authorization-config /dev/null --authorization-mode RBAC", "cannot be given together with --authoriz"),
        ("up --authentication-config /dev/null", "--authentication-config: /dev/null: want a Authentication"),
        (
            "up --authentication-token-webhook-config-file /x",
            "--authentication-token-webhook-config-file: /x: there is",
        ),
        ("up --oidc-issuer-url https://x", "--oidc-issuer-url and --oidc-client-id: give both or neither"),
        ("up --oidc-issuer-url http://x --oidc-client-id a", "--oidc-issuer-url: URL scheme must be https"),
        ("up --requestheader-client-ca-file /dev/null", "--requestheader-username-headers: --requestheader-client-ca"),
        ("up --requestheader-group-headers X", "--requestheader-group-headers: needs --requestheader-client-ca-file"),
        ("up --max-mutating-requests-inflight -1", "--max-mutating-requests-inflight: cannot be negative"),
        ("up --data-dir /proc/nowhere", "--data-dir: cannot create /proc/nowhere: "),
        ("kube-apiserver --tls-cert-file /nowhere", "--tls-cert-file: cannot read /nowhere"),
        ("kube-apiserver --tls-cert-file /dev/null", "give both or neither"),
        ("kube-apiserver --cert-dir /proc/nowhere", "--cert-dir: cannot create /proc/nowhere: "),
    ],
)
def test_invalid_flag_value_is_reported_in_one_line(run: Run, words: str, message: str) -> None:
    done = run(*words.split())
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"Error: {message}") or message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nonsense", "No such command 'nonsense'."),
        ("upp", "No such command 'upp'. Did you mean 'up'"),
        ("snapshot forc", "No such command 'forc'. Did you mean 'fork'?"),
        ("up --nonsense", "No such option '--nonsense'."),
        ("up --secure-port many", "Invalid value for '--secure-port'"),
        ("up --store tape", "Invalid value for '--store'"),
        ("up surplus", "Got unexpected extra argument (surplus)"),
        ("down --nonsense", "No such option '--nonsense'."),
    ],
)
def test_syntax_error_is_reported_with_usage(run: Run, words: str, message: str) -> None:
    done = run(*words.split())
    assert done.exit_code == 2
    assert "Usage: " in done.stderr
    assert message in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("kubectl nonsense", 'error: unknown command "nonsense" for "kubectl"\n'),
        ("kubectl get --nonsense", "error: unknown flag: --nonsense\nSee 'kubectl get --help' for usage.\n"),
    ],
)
def test_kubectl_syntax_errors_match_real_kubectl(run: Run, words: str, message: str) -> None:
    done = run(*words.split())
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", message)


@pytest.mark.parametrize("words", ["kubectl get nodes", "why pod/x", "trace pod/x", "top --once"])
def test_unreachable_cluster_is_reported_with_a_hint_to_run_sampan_up(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    done = run(*words.split())
    refused = "The connection to the server localhost:8080 was refused - did you specify the right host or port?\n"
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(refused)
    assert "none of your Sampan clusters is running: `sampan up` starts one." in done.stderr


@pytest.mark.parametrize("content", ["one,two", "\xff"], ids=["too-few-columns", "invalid-utf-8"])
def test_an_invalid_token_file_is_reported(run: Run, tmp_path: Path, content: str) -> None:
    file = tmp_path / "tokens.csv"
    file.write_bytes(content.encode("latin-1"))
    done = run("up", "--token-auth-file", str(file))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: --token-auth-file: {file}, line 1: ")


def test_a_token_file_that_cannot_be_read_is_reported(run: Run, tmp_path: Path) -> None:
    done = run("up", "--token-auth-file", str(tmp_path))
    assert done.stderr == f"Error: --token-auth-file: cannot read {tmp_path}: Is a directory\n"


def test_unexpected_exception_is_reported_with_the_path_of_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAMPAN_HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(status, "list_clusters", lambda: 1 / 0)
    done = CliRunner().invoke(cli, ["status"])
    (file,) = tmp_path.iterdir()
    assert done.exit_code == 1
    assert done.stderr == (
        "Error: unexpected ZeroDivisionError: division by zero; this is a bug in Sampan: please open an issue with the "
        f"traceback, which is in {file}\n"
    )
    assert file.stat().st_mode & 0o077 == 0
    assert "ZeroDivisionError: division by zero" in file.read_text()
