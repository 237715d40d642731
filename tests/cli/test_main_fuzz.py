"""Random flags and values for every command: never a traceback, and always a documented exit code.

Commands run in this process up to the point at which they would serve: the configuration is built and the cluster is
assembled, but nothing listens. A few commands run in processes of their own.
"""

import os
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sampan.cli import up
from sampan.cli.main import cli
from sampan.cluster.assembly import Assembly
from sampan.cluster.cluster_config import ClusterConfig
from sampan.host.clock import RealClock
from tests.cli.command import Sampan

SERVERS = {
    "up": ["--nodes", "0"],
    "kube-apiserver": ["--cert-dir", "certificates"],
    "kube-controller-manager": ["--master", "http://127.0.0.1:1"],
    "kube-scheduler": ["--master", "http://127.0.0.1:1"],
    "kube-proxy": ["--master", "http://127.0.0.1:1", "--oom-score-adj", "0"],
    "kubelet": ["--root-dir", "kubelet", "--runtime", "process", "--api-servers", "http://127.0.0.1:1"],
}
"""Commands that serve, each with the flags that keep it away from the machine and from other processes."""
LOCAL_COMMANDS = [
    ["status"],
    ["down"],
    ["down", "--delete"],
    ["image", "ls"],
    ["image", "rm", "x"],
    ["image", "load", "file-0"],
    ["image", "load", "file-3"],
    ["image", "save", "x", "-o", "out"],
    ["node", "add"],
    ["node", "remove", "x"],
    ["snapshot", "save", "out.tar"],
    ["snapshot", "restore", "file-4"],
    ["snapshot", "fork", "x", "--no-start"],
    ["snapshot", "ls"],
    ["service", "install", "--print"],
    ["service", "uninstall", "--user"],
    ["upgrade"],
    ["help", "exit-codes"],
    ["kubeconfig"],
    ["logs"],
    ["token", "list"],
    ["store", "copy", "file-1", "out.db"],
]
CLIENT_COMMANDS = [
    *(
        ["kubectl", *words]
        for words in (["get", "pods"], ["describe", "pods"], ["delete", "pod", "x"], ["top", "pods"])
    ),
    *(["kubectl", *words] for words in (["create", "-f", "file-1"], ["apply", "-f", "file-2"], ["logs", "x"])),
    *(
        ["kubectl", *words]
        for words in (["exec", "x", "ls"], ["attach", "x"], ["cp", "a", "x:b"], ["port-forward", "x", "1"])
    ),
    ["why", "pod/x"],
    ["trace", "pod/x"],
    ["top"],
]
EXCLUDED_FLAGS = {
    "--help",
    "--detach",
    "--server",
    "--nodes",
    "--root-dir",
    "--master",
    "--api-servers",
    "--runtime",
    "--follow",
    "--cleanup",
    "--init-only",
    "--oom-score-adj",
}
"""Flags with which a command would leave this process or the directory of the test, or would wait."""
FILES = [
    b"",
    b"\xff\xfe\x00",
    b"{",
    b"a: &a [*a]\n",
    b"[1, 2]\n",
    b"kind: Secret\napiVersion: v1\nmetadata: 3\n",
    b"apiVersion: v1\nkind: Config\nclusters: 3\nusers: [1]\ncontexts: {}\ncurrent-context: x\n",
    b"kind: AuthenticationConfiguration\napiVersion: apiserver.config.k8s.io/v1\njwt: [3]\n",
    b"kind: AuthorizationConfiguration\napiVersion: apiserver.config.k8s.io/v1\nauthorizers: {a: b}\n",
    b"kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources: [{providers: 3}]\n",
    b"kind: AdmissionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nplugins: [{name: 3}]\n",
    b"kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: 3}]\n",
    b"kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1\nprofiles: [3]\n",
    b"kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: many\n",
    b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    b"token,user\n",
    b"stages: [{redy: 3s}]\n",
    b"[" * 3000,
]
WORDS = [
    *("", "-", "*", "0", "-1", "99", "70000", "1e9", "99999999999999999999", "0x10", "nan", "true", "false", "auto"),
    *(
        "10.0.0.0/8",
        "10.0.0.1/8",
        "::/0",
        "fd00::/48",
        "10.0.0.0/8,fd00::/48",
        "10.0.0.0/33",
        "1.2.3.4",
        "::1",
        "127.1",
    ),
    *("5m", "-1s", "0s", "1h1h", "9999999h", "1e400h", "a=b", "a=true", "api/all=true", "a=b:NoSchedule", "a:b", "a<1"),
    *("memory.available<1Gi", "cpu=-1", "30000-1", "1-65535", "Node,RBAC", "RBAC,RBAC", "Webhook", "ABAC", "x,y", "ä€"),
    *(
        "/dev/null",
        "/proc/nowhere",
        "/dev/null/x",
        ".",
        "nowhere/x",
        "file-99",
        "unix:///nowhere",
        "http://127.0.0.1:1",
    ),
    *("https://127.0.0.1:1", "https://[", "http://a b", "yaml", "json", "Opaque", "metadata.name=x", "!a", "a in (b"),
    *(f"file-{number}" for number in range(len(FILES))),
]
VALUES = st.one_of(
    st.sampled_from(WORDS),
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), max_size=20),
    st.integers(-(2**70), 2**70).map(str),
)


def options(words: list[str]) -> list[click.Option]:
    """Return the options of the last subcommand among the words, without the excluded ones."""
    context, command = cli.make_context("sampan", [], resilient_parsing=True), cli
    options: list[click.Option] = []
    for word in words:
        if not isinstance(command, click.Group):
            break
        inner = command.get_command(context, word)
        if inner is None:
            break
        command = inner  # type: ignore[assignment]
        options = [param for param in command.params if isinstance(param, click.Option)]
    return [option for option in options if not EXCLUDED_FLAGS & set(option.opts)]


@st.composite
def flags(draw: st.DrawFn, words: list[str]) -> list[str]:
    arguments, known = list[str](), options(words)
    for option in draw(st.lists(st.sampled_from(known), max_size=4)) if known else ():
        name = draw(st.sampled_from([*option.opts, *option.secondary_opts]))
        arguments += [name] if option.is_flag else [name, draw(VALUES)]
    return arguments


@pytest.fixture(scope="module")
def working_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working directory with valid and invalid files; servers are replaced by functions that do not listen."""
    path = tmp_path_factory.mktemp("fuzz")
    for number, content in enumerate(FILES):
        (path / f"file-{number}").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for name in ("HOME", "SAMPAN_HOME", "TMPDIR"):
            patch.setenv(name, str(path / name))
        patch.delenv("KUBECONFIG", raising=False)
        (path / "TMPDIR").mkdir()
        (path / "SAMPAN_HOME/sampan").mkdir(parents=True)  # its certificates are made once
        for module in ("up", "components.kube_apiserver"):
            patch.setattr(f"sampan.cli.{module}.serve", assemble_only)
        for module in ("component", "kubelet", "kube_proxy"):
            patch.setattr(f"sampan.cli.components.{module}.run_loop", discard)
        patch.setattr(up, "exit_process", lambda: None)
        patch.setattr(os, "fsync", lambda descriptor: None)  # certificates of other directories are thrown away
        yield path


def assemble_only(config: ClusterConfig, on_ready: Any, progress: Any = None) -> None:
    Assembly(config=config, clock=RealClock())


def discard(work: Coroutine[Any, Any, None]) -> None:
    work.close()


def check(words: list[str]) -> None:
    done = CliRunner().invoke(cli, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exception)
    assert done.exit_code in (0, 1, 2), (words, done.exit_code)
    assert "Traceback" not in done.output, words
    assert "bug in Sampan" not in done.output, (words, done.output)
    if done.exit_code == 1 and words[0] in SERVERS:
        assert done.stderr.startswith("Error: --"), (words, done.stderr)
        assert done.stderr.count("\n") == 1, (words, done.stderr)
    elif done.exit_code:
        expected = ("rror", "Usage: ", "The connection to the server ", "does not exist")
        assert any(text in done.stderr for text in expected) or words[0] == "status", (words, done.stderr)


bounded = settings(
    max_examples=int(os.environ.get("SAMPAN_FUZZ_EXAMPLES", "30")),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("name", SERVERS)
def test_servers_handle_random_flags_without_traceback(working_directory: Path, name: str) -> None:
    @bounded
    @given(flags([name]))
    def run(arguments: list[str]) -> None:
        check([name, *SERVERS[name], *arguments])

    run()


@pytest.mark.parametrize("name", SERVERS)
def test_servers_handle_odd_values_of_every_flag_without_traceback(working_directory: Path, name: str) -> None:
    """Each flag with a value is tried with some of the words or files. `up` shares the flags of the API server."""
    shared = {option.opts[0] for option in options(["kube-apiserver"])} if name == "up" else set()
    words, files = WORDS[: -len(FILES)], WORDS[-len(FILES) :]
    for at, option in enumerate(options([name])):
        if option.is_flag or option.opts[0] in shared:
            continue
        for value in files[at % 4 :: 4] if option.metavar == "F" else words[at % 15 :: 15]:
            check([name, *SERVERS[name], option.opts[0], value])


@pytest.mark.parametrize("words", LOCAL_COMMANDS, ids=" ".join)
def test_local_commands_handle_random_flags_without_traceback(working_directory: Path, words: list[str]) -> None:
    @bounded
    @given(flags(words))
    def run(arguments: list[str]) -> None:
        check([*words, *arguments])

    run()


@pytest.mark.parametrize("words", CLIENT_COMMANDS, ids=" ".join)
def test_client_commands_handle_random_flags_without_traceback(working_directory: Path, words: list[str]) -> None:
    """The commands connect to an address at which no server listens."""
    server = ["--server", "http://127.0.0.1:1"]

    @bounded
    @given(flags(words))
    def run(arguments: list[str]) -> None:
        inside = [words[0], *server, *words[1:], *arguments] if words[0] == "kubectl" else [*words, *server, *arguments]
        check(inside)

    run()


@pytest.mark.parametrize(
    "words",
    [
        ["up", "--cluster-cidr", "foo"],
        ["up", "--allocate-node-cidrs=true", "--cluster-cidr", "10.0.0.0/16", "--node-cidr-mask-size", "99"],
        ["up", "--allocate-node-cidrs=true", "--cluster-cidr", "10.96.0.0/16"],
        ["up", "--service-cluster-ip-range", "10.0.0.0/8,10.1.0.0/16"],
        ["up", "--kubeconfig-out", "/nowhere/x"],
        ["up", "--audit-policy-file", "policy.yaml", "--audit-log-path", "/nowhere/x"],
        ["kube-apiserver", "--kubelet-client-certificate", "policy.yaml", "--kubelet-client-key", "policy.yaml"],
        ["kube-apiserver", "--tls-cert-file", "policy.yaml", "--tls-private-key-file", "policy.yaml"],
        ["kube-apiserver", "--client-ca-file", "policy.yaml"],
        ["kube-controller-manager", "--kubeconfig", "policy.yaml"],
        ["kube-scheduler", "--kubeconfig", "/nowhere"],
        ["kubelet", "--config", "policy.yaml"],
    ],
    ids=" ".join,
)
def test_a_server_process_exits_with_one_line_that_names_the_flag(
    sampan: Sampan, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sampan.home)
    (sampan.home / "policy.yaml").write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    done = sampan.run(*words, *(["--nodes", "0"] if words[0] == "up" else []))
    assert (done.returncode, done.stdout) == (1, "")
    named = [word.partition("=")[0] for word in words if word.startswith("--")]
    assert any(done.stderr.startswith(f"Error: {flag}") for flag in named)
    assert done.stderr.count("\n") == 1
    assert not Path("/nowhere").exists()
