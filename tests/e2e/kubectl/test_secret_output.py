"""`sampan kubectl` never prints the data of Secrets: neither in descriptions nor in errors."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sampan.cli.main import cli
from tests.e2e.kubectl.namespace_objects import NamespaceObjects

SampanKubectl = Callable[..., Result]


@pytest.fixture
def sampan_kubectl(sampan_kubeconfig: Path) -> SampanKubectl:
    def run(*words: str, stdin: str = "") -> Result:
        return CliRunner().invoke(cli, ["kubectl", "--kubeconfig", str(sampan_kubeconfig), *words], input=stdin)

    return run


@pytest.mark.parametrize("kind", ["Opaque", "bootstrap.kubernetes.io/token", "kubernetes.io/service-account-token"])
def test_secret_data_is_not_described(sampan_kubectl: SampanKubectl, kind: str) -> None:
    note = "{kubernetes.io/service-account.name: default}"
    secret = f"kind: Secret\napiVersion: v1\nmetadata: {{name: s, annotations: {note}}}\ntype: {kind}\n"
    applied = sampan_kubectl("apply", "-f", "-", stdin=f"{secret}stringData: {{password: hunter2, token: hunter22}}\n")
    assert applied.exit_code == 0, applied.output
    for words in (["secret", "s"], ["secrets"], ["secret", "-l", "!none"]):
        result = sampan_kubectl("describe", *words)
        assert result.exit_code == 0, result.output
        assert not re.search("hunter2|aHVudGVyMg|last-applied", result.output)
        assert re.search(r"^password: +7 bytes$", result.output, re.MULTILINE)


def test_rejected_apply_does_not_print_secret_data(sampan_kubectl: SampanKubectl, objects: NamespaceObjects) -> None:
    secret = "kind: Secret\napiVersion: v1\nmetadata: {name: s}\nimmutable: true\nstringData: {password: FIRST}\n"
    objects.apply(secret)
    result = sampan_kubectl("apply", "-f", "-", stdin=secret.replace("FIRST", "hunter2"))
    assert result.exit_code == 1
    assert "immutable" in result.stderr
    assert not re.search("hunter2|aHVudGVyMg", result.output)
