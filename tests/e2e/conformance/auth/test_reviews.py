"""The conformance test of sig-auth for access reviews. The first paragraph of the docstring is the official test
name."""

import pytest

from tests.e2e.conformance.api import Api, ApiError

REVIEWS = "/apis/authorization.k8s.io/v1"


@pytest.mark.parametrize("is_allowed", [False, True], ids=["denied", "allowed"])
def test_subject_access_reviews(api: Api, is_allowed: bool) -> None:
    """[sig-auth] SubjectReview should support SubjectReview API operations [Conformance]"""
    namespace = api.namespace
    uid = api.for_resource("serviceaccounts").create("e2e")["metadata"]["uid"]
    user = f"system:serviceaccount:{namespace}:e2e"
    groups = ["system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if is_allowed:
        subjects = [{"kind": "ServiceAccount", "name": "e2e", "namespace": namespace}]
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        api.for_resource("rolebindings", "rbac.authorization.k8s.io/v1").create("e2e", subjects=subjects, roleRef=role)
    attributes = {"verb": "list", "resource": "configmaps", "namespace": namespace, "version": "v1"}
    spec = {"user": user, "groups": groups, "uid": uid, "resourceAttributes": attributes}
    version = {"apiVersion": "authorization.k8s.io/v1"}
    review = {**version, "kind": "SubjectAccessReview", "spec": spec}
    answered = api.send("POST", f"{REVIEWS}/subjectaccessreviews", review)["status"]["allowed"]
    local = {**version, "kind": "LocalSubjectAccessReview", "metadata": {"namespace": namespace}, "spec": spec}
    responses = api.send("POST", f"{REVIEWS}/namespaces/{namespace}/localsubjectaccessreviews", local)
    assert (answered, responses["status"]["allowed"]) == (is_allowed, may_list(api, user, uid, groups))


def may_list(api: Api, user: str, uid: str, groups: list[str]) -> bool:
    """Whether the service account itself can list config maps."""
    try:
        api.as_user(user, uid=uid, groups=groups).for_resource("configmaps").list_all()
    except ApiError as refused:
        if (refused.code, refused.reason) != (403, "Forbidden"):
            raise
        return False
    return True
