"""The CustomResourceDefinitions of published projects are answered as kube-apiserver answers them: whether they are
accepted, why not, with which warnings, and what is stored."""

import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sampan.testing import Cluster
from tests.operators.crds.collection import collect_or_skip
from tests.operators.crds.comparison import Server, differences
from tests.operators.crds.kube_apiserver import build_or_skip, running_kube_apiserver

_MAX_SHOWN = 50


@pytest.mark.timeout(3600)
def test_definitions_are_answered_as_by_kube_apiserver(tmp_path: Path) -> None:
    program = build_or_skip()
    definitions = list(collect_or_skip())
    failures: list[str] = []
    accepted = 0
    with Cluster(level="api") as cluster, running_kube_apiserver(program, tmp_path) as real:
        tls = ssl.create_default_context(cafile=str(cluster.ca))
        tls.load_cert_chain(*cluster.client_certificate)
        server = Server(urlsplit(cluster.url).port or 0, tls)
        for module, definition in definitions:
            expected, response = real.create(definition), server.create(definition)
            accepted += expected.code == 201
            name = definition.get("metadata", {}).get("name")
            failures += [
                f"{module} {name} {text}" for text in differences(response.comparable(), expected.comparable())
            ]
        server.close()
    print(f"{len(definitions)} definitions, {accepted} accepted by kube-apiserver")
    assert accepted > 1000
    assert failures[:_MAX_SHOWN] == []
