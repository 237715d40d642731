"""Descriptions of objects that were recorded with kubectl v1.36.4, for kinds that need nothing else of the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sampan.kubectl.client.session import Session
from sampan.kubectl.describers import ClusterView, describe
from sampan.machinery.client.access import Access

RECORDED = json.loads((Path(__file__).parent / "data" / "descriptions.json").read_text())


@pytest.fixture
def view() -> ClusterView:
    session = Session(Access(server="http://127.0.0.1:1"), "default")
    return ClusterView(session=session, shows_events=False, chunk_size=500)


@pytest.mark.parametrize(
    "case", RECORDED, ids=lambda case: f"{case['object']['kind']}-{case['object']['metadata']['name']}"
)
def test_same_text_as_kubectl(case: dict[str, Any], view: ClusterView) -> None:
    assert describe(case["object"], view) == case["text"]


def test_service_account_tokens_are_not_printed(view: ClusterView) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "token", "namespace": "default"},
        "type": "kubernetes.io/service-account-token",
        "data": {"token": "aHVudGVyMg=="},
    }
    assert "token:  7 bytes" in describe(secret, view)
