"""Kubeconfigs: what is read, what is refused."""

import base64
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from sampan.machinery.client import kubeconfig
from sampan.machinery.client.access import Access, AccessError, tls_context
from sampan.machinery.client.kubeconfig import KubeconfigError, load
from tests.input_cost import check_cost


def write(path: Path, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> Path:
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "contexts": [
                    {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "work"}},
                    {"name": "there", "context": {"cluster": "far", "user": "u"}},
                ],
                "clusters": [
                    {"name": "c", "cluster": {"server": "https://localhost:6443", **(cluster or {})}},
                    {"name": "far", "cluster": {"server": "https://far.example:443"}},
                ],
                "users": [{"name": "u", "user": user or {}}],
            }
        )
    )
    return path


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_the_current_context_and_another(tmp_path: Path) -> None:
    path = write(tmp_path / "config", user={"token": "t"})
    assert load(path).server == "https://localhost:6443"
    assert load(path).headers() == [("Authorization", "Bearer t")]
    assert load(path, context="there").server == "https://far.example:443"


def test_certificates_inline_and_in_files_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("key")
    user = {"client-certificate-data": encoded("cert"), "client-key": "key.pem"}
    cluster = {"certificate-authority-data": encoded("ca"), "tls-server-name": "kubernetes"}
    access = load(write(tmp_path / "config", user=user, cluster=cluster))
    assert (access.ca_pem, access.client_cert_pem, access.client_key_pem) == (b"ca", b"cert", b"key")
    assert access.tls_server_name == "kubernetes"


def test_a_token_file_is_read_when_needed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    access = load(write(tmp_path / "config", user={"tokenFile": "token", "token": "inline"}))
    assert access.headers() == [("Authorization", "Bearer from-file")]
    missing = load(write(tmp_path / "config", user={"tokenFile": "nowhere"}))
    with pytest.raises(AccessError, match=r"token file .*nowhere: No such file"):
        missing.headers()


def test_basic_and_impersonation(tmp_path: Path) -> None:
    user = {"username": "a", "password": "b", "as": "other", "as-groups": ["g", "h"], "as-user-extra": {"k/x": ["v"]}}
    assert load(write(tmp_path / "config", user=user)).headers() == [
        ("Impersonate-User", "other"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Group", "h"),
        ("Impersonate-Extra-k%2Fx", "v"),
        ("Authorization", f"Basic {encoded('a:b')}"),
    ]


def test_several_files_the_first_word_counts(tmp_path: Path) -> None:
    first = write(tmp_path / "one", user={"token": "first"})
    second = write(tmp_path / "two", user={"token": "second"})
    assert load([tmp_path / "missing", first, second]).token == "first"


def test_secrets_do_not_show(tmp_path: Path) -> None:
    user = {"token": "hush-token", "password": "hush-pass", "client-key-data": encoded("hush-key")}
    assert "hush" not in repr(load(write(tmp_path / "config", user=user)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"user": {"exec": {"command": "aws"}}}, "exec plugin: invalid apiVersion"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "The gcp auth plugin has been removed"),
        ({"user": {"client-key-data": "%%%"}}, "client-key-data is not base64"),
        ({"user": {"client-key": "nowhere.pem"}}, "client-key: .*nowhere.pem"),
        ({"cluster": {"server": ""}}, "the cluster has no server"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    path = write(tmp_path / "config", **change)
    with pytest.raises(KubeconfigError, match=why):
        load(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("contexts: [", "cannot be read"),
        ("- a list", "not a kubeconfig"),
        ("", "no current context is set"),
        ("current-context: gone", "there is no context 'gone'"),
        ("{current-context: a, contexts: [{name: a, context: {cluster: gone}}]}", "there is no cluster 'gone'"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(KubeconfigError, match=why):
        load(tmp_path / "config")


@pytest.mark.parametrize("value", [5, [1], {"a": 1}, [{"a": [1]}], "\0", True], ids=repr)
def test_a_kubeconfig_with_values_of_the_wrong_type_is_refused_without_a_traceback(tmp_path: Path, value: Any) -> None:
    places = {
        "cluster": ("server", "certificate-authority", "certificate-authority-data", "tls-server-name", "proxy-url"),
        "user": (
            *("token", "tokenFile", "username", "client-certificate", "client-certificate-data", "client-key"),
            *("as", "as-uid", "as-groups", "as-user-extra", "exec", "auth-provider"),
        ),
        "context": ("cluster", "user", "namespace"),
    }
    for place, fields in places.items():
        for field in fields:
            entries: dict[str, dict[str, Any]] = {
                "cluster": {"server": "https://x"},
                "user": {},
                "context": {"cluster": "a", "user": "a"},
            }
            entries[place][field] = value
            path = tmp_path / "config"
            sections = {f"{name}s": [{"name": "a", name: entry}] for name, entry in entries.items()}
            path.write_text(yaml.safe_dump({"current-context": "a", **sections}))
            with suppress(KubeconfigError, AccessError):
                access = kubeconfig.load(path)
                access.headers()
                tls_context(access)


def test_a_kubeconfig_that_grows_when_it_is_read_is_refused(tmp_path: Path) -> None:
    """A few hundred bytes of aliases took all memory once the current context was made a text."""
    names = "abcdefghij"
    lines = [f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]" for before, name in pairwise(names)]
    text = "\n".join([f"a: &a [{', '.join('x' * 10)}]", *lines, "current-context: *j", "contexts: *j"])
    (tmp_path / "config").write_text(text)

    def read() -> None:
        with pytest.raises(KubeconfigError, match="cannot be read"):
            kubeconfig.load(tmp_path / "config")

    check_cost(read)


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="there is no such file"):
        load(tmp_path / "config")


def test_where_kubeconfigs_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    assert kubeconfig.default_paths() == [Path("/a"), Path("/b")]
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kubeconfig.default_paths() == [tmp_path / ".kube" / "config"]


def test_not_in_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match="not in a cluster"):
        kubeconfig.in_cluster()


def test_a_client_certificate_that_is_none() -> None:
    access = Access(server="https://localhost", client_cert_pem=b"nonsense", client_key_pem=b"nonsense")
    with pytest.raises(AccessError, match="client certificate and its key cannot be used"):
        tls_context(access)
