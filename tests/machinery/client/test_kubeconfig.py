"""Kubeconfigs: contexts, credentials, and rejected files."""

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


def encode_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_current_and_explicit_context(tmp_path: Path) -> None:
    path = write(tmp_path / "config", user={"token": "t"})
    assert load(path).server == "https://localhost:6443"
    assert load(path).headers() == [("Authorization", "Bearer t")]
    assert load(path, context="there").server == "https://far.example:443"


def test_certificates_are_read_inline_and_from_relative_files(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("key")
    user = {"client-certificate-data": encode_base64("cert"), "client-key": "key.pem"}
    cluster = {"certificate-authority-data": encode_base64("ca"), "tls-server-name": "kubernetes"}
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


def test_basic_auth_and_impersonation_headers(tmp_path: Path) -> None:
    user = {"username": "a", "password": "b", "as": "other", "as-groups": ["g", "h"], "as-user-extra": {"k/x": ["v"]}}
    assert load(write(tmp_path / "config", user=user)).headers() == [
        ("Impersonate-User", "other"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Group", "h"),
        ("Impersonate-Extra-k%2Fx", "v"),
        ("Authorization", f"Basic {encode_base64('a:b')}"),
    ]


def test_first_file_takes_precedence(tmp_path: Path) -> None:
    first = write(tmp_path / "one", user={"token": "first"})
    second = write(tmp_path / "two", user={"token": "second"})
    assert load([tmp_path / "missing", first, second]).token == "first"


def test_repr_hides_secrets(tmp_path: Path) -> None:
    user = {"token": "hush-token", "password": "hush-pass", "client-key-data": encode_base64("hush-key")}
    assert "hush" not in repr(load(write(tmp_path / "config", user=user)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": {"exec": {"command": "aws"}}}, "exec plugin: invalid apiVersion"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "The gcp auth plugin has been removed"),
        ({"user": {"client-key-data": "%%%"}}, "client-key-data is not base64"),
        ({"user": {"client-key": "nowhere.pem"}}, "client-key: .*nowhere.pem"),
        ({"cluster": {"server": ""}}, "the cluster has no server"),
    ],
)
def test_error_names_the_unusable_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "config", **change)
    with pytest.raises(KubeconfigError, match=message):
        load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("contexts: [", "cannot be read"),
        ("- a list", "not a kubeconfig"),
        ("", "no current context is set"),
        ("current-context: gone", "there is no context 'gone'"),
        ("{current-context: a, contexts: [{name: a, context: {cluster: gone}}]}", "there is no cluster 'gone'"),
    ],
)
def test_malformed_kubeconfigs_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(KubeconfigError, match=message):
        load(tmp_path / "config")


@pytest.mark.parametrize("value", [5, [1], {"a": 1}, [{"a": [1]}], "\0", True], ids=repr)
def test_values_of_the_wrong_type_raise_only_documented_errors(tmp_path: Path, value: Any) -> None:
    fields_by_entry = {
        "cluster": ("server", "certificate-authority", "certificate-authority-data", "tls-server-name", "proxy-url"),
        "user": (
            *("token", "tokenFile", "username", "client-certificate", "client-certificate-data", "client-key"),
            *("as", "as-uid", "as-groups", "as-user-extra", "exec", "auth-provider"),
        ),
        "context": ("cluster", "user", "namespace"),
    }
    for kind, fields in fields_by_entry.items():
        for field in fields:
            entries: dict[str, dict[str, Any]] = {
                "cluster": {"server": "https://x"},
                "user": {},
                "context": {"cluster": "a", "user": "a"},
            }
            entries[kind][field] = value
            path = tmp_path / "config"
            sections = {f"{name}s": [{"name": "a", name: entry}] for name, entry in entries.items()}
            path.write_text(yaml.safe_dump({"current-context": "a", **sections}))
            with suppress(KubeconfigError, AccessError):
                access = kubeconfig.load(path)
                access.headers()
                tls_context(access)


def test_kubeconfig_with_exponential_yaml_aliases_is_rejected(tmp_path: Path) -> None:
    """A few hundred bytes of nested aliases once took all memory when the current context became a string."""
    names = "abcdefghij"
    lines = [f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]" for before, name in pairwise(names)]
    text = "\n".join([f"a: &a [{', '.join('x' * 10)}]", *lines, "current-context: *j", "contexts: *j"])
    (tmp_path / "config").write_text(text)

    def read() -> None:
        with pytest.raises(KubeconfigError, match="cannot be read"):
            kubeconfig.load(tmp_path / "config")

    check_cost(read)


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="there is no such file"):
        load(tmp_path / "config")


def test_default_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    assert kubeconfig.default_paths() == [Path("/a"), Path("/b")]
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kubeconfig.default_paths() == [tmp_path / ".kube" / "config"]


def test_in_cluster_outside_of_a_cluster_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match="not in a cluster"):
        kubeconfig.load_in_cluster()


def test_invalid_client_certificate_is_rejected() -> None:
    access = Access(server="https://localhost", client_cert_pem=b"nonsense", client_key_pem=b"nonsense")
    with pytest.raises(AccessError, match="client certificate and its key cannot be used"):
        tls_context(access)
