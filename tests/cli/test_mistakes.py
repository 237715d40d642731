"""What the command line says about what it cannot do: one line that names the flag."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan.cli.main import cli


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("SAMPAN_HOME", str(tmp_path))
    return lambda *words: CliRunner().invoke(cli, words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("up --components foo", "--components: there is no 'foo'; known are apiserver, controllers"),
        ("up --components controllers", "--components: apiserver cannot be left out"),
        ("up --controllers foo", '--controllers: "foo" is not in the list of known controllers'),
        ("up --secure-port 70000", "--secure-port: 70000 is not a port"),
        ("up --secure-port 0", "--secure-port: with 0 there must be an --insecure-port"),
        ("up --bind-address here", "--bind-address: 'here' is not an IP address"),
        ("up --advertise-address here", "--advertise-address: 'here' is not an IP address"),
        ("up --bind-address 203.0.113.5", "--bind-address: 203.0.113.5:6443 is not an address of this machine"),
        ("up --service-cluster-ip-range 10.0.0.1/8", "--service-cluster-ip-range: "),
        ("up --service-node-port-range 5", "--service-node-port-range: want two ports as in 30000-32767, not '5'"),
        ("up --event-ttl soon", '--event-ttl: time: invalid duration "soon"'),
        ("up --encryption-provider-config /nowhere", "--encryption-provider-config: cannot read /nowhere: "),
        ("up --encryption-provider-config /dev/null", "--encryption-provider-config: /dev/null: want kind Encrypt"),
        ("up --runtime-config nonsense=true", "--runtime-config: "),
        ("up --feature-gates Nonsense=true", "--feature-gates: there is no feature 'Nonsense' to switch"),
        ("up --token-auth-file /nowhere", "--token-auth-file: cannot read /nowhere: No such file or directory"),
        ("up --etcd-servers http://x --etcd-cafile /nowhere", "--etcd-cafile: cannot read /nowhere"),
        ("up --data-dir /proc/nowhere", "--data-dir: cannot make /proc/nowhere: "),
        ("kube-apiserver --tls-cert-file /nowhere", "--tls-cert-file: cannot read /nowhere"),
        ("kube-apiserver --tls-cert-file /dev/null", "give both or neither"),
        ("kube-apiserver --cert-dir /proc/nowhere", "--cert-dir: cannot make /proc/nowhere: "),
    ],
)
def test_in_one_line(run, words: str, told: str) -> None:  # type: ignore[no-untyped-def]
    done = run(*words.split())
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"Error: {told}") or told in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("nonsense", "No such command 'nonsense'."),
        ("up --nonsense", "No such option '--nonsense'."),
        ("up --secure-port many", "Invalid value for '--secure-port'"),
        ("up --store tape", "Invalid value for '--store'"),
        ("up surplus", "Got unexpected extra argument (surplus)"),
        ("down --nonsense", "No such option '--nonsense'."),
        ("kubectl nonsense", "No such command 'nonsense'."),
    ],
)
def test_with_how_it_is_used(run, words: str, told: str) -> None:  # type: ignore[no-untyped-def]
    done = run(*words.split())
    assert done.exit_code == 2
    assert "Usage: " in done.stderr
    assert told in done.stderr


@pytest.mark.parametrize("content", ["one,two", "a,b,c\na,d,e\n", "\xff"], ids=["short", "twice", "bytes"])
def test_a_token_file_that_cannot_be_understood(run, tmp_path: Path, content: str) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "tokens.csv"
    file.write_bytes(content.encode("latin-1"))
    done = run("up", "--token-auth-file", str(file), "--secure-port", "0", "--insecure-port", "1")
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert done.exception is None or isinstance(done.exception, SystemExit)


def test_unreadable_tokens(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    done = run("up", "--token-auth-file", str(tmp_path))
    assert done.stderr == f"Error: --token-auth-file: cannot read {tmp_path}: Is a directory\n"
