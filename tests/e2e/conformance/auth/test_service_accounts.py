"""Conformance tests of sig-auth for the objects of service accounts. The first paragraph of a docstring is the official
test name."""

import pytest

from tests.e2e.conformance.api import STRATEGIC, Api, ApiError, version_of

ROOT = "kube-root-ca.crt"


def test_lifecycle(api: Api) -> None:
    """[sig-auth] ServiceAccounts should run through the lifecycle of a ServiceAccount [Conformance]"""
    accounts, label = api.for_resource("serviceaccounts"), {"test-serviceaccount-static": api.namespace}
    selector = f"test-serviceaccount-static={api.namespace}"
    created = accounts.create("testserviceaccount", label)
    assert accounts.get("testserviceaccount")["metadata"]["uid"] == created["metadata"]["uid"]
    with accounts.watch(labelSelector=selector) as events:
        assert events.take(1) == [("ADDED", "testserviceaccount")]
        patched = accounts.patch("testserviceaccount", {"automountServiceAccountToken": False}, content=STRATEGIC)
        assert patched["automountServiceAccountToken"] is False
        assert version_of(patched) > version_of(created)
        events.wait_for("MODIFIED", lambda obj: obj["automountServiceAccountToken"] is False)
        (account,) = api.get(accounts.all_namespaces_path, labelSelector=selector)["items"]
        assert (account["metadata"]["namespace"], account["automountServiceAccountToken"]) == (api.namespace, False)
        accounts.delete_all("")
        assert events.wait_for("DELETED")["metadata"]["name"] == "testserviceaccount"


def test_update(api: Api) -> None:
    """[sig-auth] ServiceAccounts should update a ServiceAccount [Conformance]"""
    accounts = api.for_resource("serviceaccounts")
    assert accounts.create("e2e-sa", automountServiceAccountToken=False)["automountServiceAccountToken"] is False
    updated = accounts.change("e2e-sa", lambda obj: obj.update(automountServiceAccountToken=True))
    assert updated["automountServiceAccountToken"] is True
    assert accounts.get("e2e-sa")["automountServiceAccountToken"] is True


def test_token_request_and_token_review(api: Api) -> None:
    """[sig-auth] ServiceAccounts should create a serviceAccountToken and ensure a successful TokenReview
    [Conformance]"""
    accounts = api.for_resource("serviceaccounts")
    accounts.create("e2e-sa")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.send("POST", accounts.path("e2e-sa", "token"), request)["status"]["token"]
    assert token
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = api.send("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert (status["authenticated"], status.get("error", "")) == (True, "")
    assert status["user"]["username"] == f"system:serviceaccount:{api.namespace}:e2e-sa"
    accounts.delete("e2e-sa")
    with pytest.raises(ApiError) as refused:
        api.with_token(token).get("/api")
    assert refused.value.code == 401


def test_root_ca_config_map_is_restored(api: Api) -> None:
    """[sig-auth] ServiceAccounts should guarantee kube-root-ca.crt exist in any namespace [Conformance]"""
    maps = api.for_resource("configmaps")
    with maps.watch(fieldSelector=f"metadata.name={ROOT}") as events:
        first = events.wait_for("ADDED")
        assert "BEGIN CERTIFICATE" in first["data"]["ca.crt"]
        maps.delete(ROOT)
        again = events.wait_for("ADDED")
        assert again["metadata"]["uid"] != first["metadata"]["uid"]
        maps.update({"metadata": {"name": ROOT}, "data": {"ca.crt": ""}})
        events.wait_for("MODIFIED", lambda obj: obj["data"] == {"ca.crt": ""})
        assert events.wait_for("MODIFIED")["data"] == first["data"]
