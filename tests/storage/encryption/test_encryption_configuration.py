"""EncryptionConfiguration: which resources are encrypted, and errors, which do not contain keys."""

import base64
from pathlib import Path
from typing import Any

import pytest

from sampan.storage.encryption.encryption_configuration import EncryptionConfigError, parse, read_encryption_config

SECRET = base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
GCM = {"aesgcm": {"keys": [{"name": "one", "secret": SECRET}]}}


def config(*rules: tuple[list[Any], list[Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": resources, "providers": providers} for resources, providers in rules],
    }


@pytest.mark.parametrize(
    ("names", "group", "plural", "is_encrypted"),
    [
        (["secrets"], "", "secrets", True),
        (["secrets"], "", "configmaps", False),
        (["secrets"], "example.com", "secrets", False),
        (["widgets.example.com"], "example.com", "widgets", True),
        (["*."], "", "pods", True),
        (["*."], "apps", "deployments", False),
        (["*.apps"], "apps", "deployments", True),
        (["*.*"], "apps", "deployments", True),
    ],
)
def test_resource_patterns(names: list[str], group: str, plural: str, is_encrypted: bool) -> None:
    assert (parse(config((names, [GCM]))).find_transformer(group, plural) is not None) is is_encrypted


def test_first_matching_rule_applies() -> None:
    encryption = parse(config((["configmaps"], [{"identity": {}}]), (["*."], [GCM])))
    plain, hidden = encryption.find_transformer("", "configmaps"), encryption.find_transformer("", "secrets")
    assert plain is not None
    assert plain.seal("/k", b"x") == b"x"
    assert hidden is not None
    assert hidden.seal("/k", b"x").startswith(b"k8s:enc:aesgcm:v1:one:")


def config_with_key(provider: str, **key: Any) -> dict[str, Any]:
    return config((["secrets"], [{provider: {"keys": [key]}}]))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "want kind EncryptionConfiguration"),
        ({"apiVersion": "v1", "kind": "EncryptionConfiguration"}, "apiserver.config.k8s.io/v1"),
        (config(), "resources: at least one"),
        (config(([], [GCM])), "resources[0].resources: at least one"),
        (config((["secrets"], [])), "resources[0].providers: at least one"),
        (config((["Secrets"], [GCM])), "capital letters"),
        (config((["*"], [GCM])), "'*.*'"),
        (config((["events.events.k8s.io"], [GCM])), "want 'events'"),
        (config((["secrets.*"], [GCM])), "a wildcard group needs the wildcard resource"),
        (config((["secrets", "secrets"], [GCM])), "multiple times"),
        (config((["secrets", "*."], [GCM])), "overlaps with another"),
        (config((["secrets", "*.*"], [GCM])), "overlaps with another"),
        (config((["secrets"], [{**GCM, "identity": {}}])), "exactly one"),
        (config((["secrets"], [{"kms": {"name": "x"}}])), "providers[0].kms: not supported"),
        (config((["secrets"], [{"rot13": {}}])), "unknown field 'rot13'"),
        (config_with_key("aesgcm", secret=SECRET), "keys[0].name: is required"),
        (config_with_key("aescbc", name="a"), "keys[0].secret: is required"),
        (config_with_key("aesgcm", name="a", secret="c2hvcnQ="), "has 5 bytes, want 16 or 24 or 32"),
        (config_with_key("secretbox", name="a", secret=base64.b64encode(b"x" * 16).decode()), "has 16 bytes, want 32"),
        (config_with_key("aesgcm", name="a", secret="not-base64!"), "must be base64 encoded"),
    ],
)
def test_invalid_configurations_are_rejected(value: Any, words: str) -> None:
    with pytest.raises(EncryptionConfigError) as caught:
        parse(value)
    assert words in str(caught.value)


def test_errors_do_not_contain_keys(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(f"resources: [{{ secret: {SECRET}")
    with pytest.raises(EncryptionConfigError) as caught:
        read_encryption_config(path)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
