"""Conformance tests of sig-auth for service account tokens in pods, on a real node. The first paragraph of a docstring
is the official test name."""

import itertools
import re
from typing import Any
from urllib.parse import urlsplit

from sampan.api.codec import json
from sampan.api.types.authentication_v1 import TokenReview
from sampan.api.types.core_v1 import ConfigMap, Node, Pod, ServiceAccount
from sampan.apiserver.config.server_config import ISSUER
from tests.e2e.conformance.node.pods import container, container_status, create_pod
from tests.e2e.conformance.own_python import python_program
from tests.e2e.conformance.storage.real_node import NODE, RealNode, concurrent_scenario

HERE = "/var/run/secrets/kubernetes.io/serviceaccount"
EXTRA = "authentication.kubernetes.io"


async def account(node: RealNode, name: str, **content: Any) -> None:
    value = {"metadata": {"name": name, "namespace": node.namespace}, **content}
    await node.client.for_kind(ServiceAccount).create(json.from_value(value, ServiceAccount))


def message(pod: Pod, name: str) -> str:
    state = container_status(pod, name).state.terminated
    assert state is not None
    return state.message


async def review(node: RealNode, token: str) -> TokenReview:
    return await node.client.for_kind(TokenReview).create(json.from_value({"spec": {"token": token}}, TokenReview))


@concurrent_scenario
async def test_token_is_mounted(node: RealNode) -> None:
    """[sig-auth] ServiceAccounts should mount an API token into pods [Conformance]"""
    await account(node, "mount-test")
    files = ("token", "ca.crt", "namespace")
    readers = [
        container(f"reads-{number}", f"cat {HERE}/{file} > /dev/termination-log") for number, file in enumerate(files)
    ]
    await create_pod(node, *readers, restartPolicy="Never", serviceAccountName="mount-test")
    pod = await node.wait_until_succeeded("p")
    token, ca, namespace = (message(pod, reader["name"]) for reader in readers)
    assert namespace == node.namespace
    assert ca == (await node.client.for_kind(ConfigMap).get("kube-root-ca.crt", node.namespace)).data["ca.crt"]

    review_status = (await review(node, token)).status
    assert (review_status.authenticated, review_status.error) == (True, "")
    assert review_status.user.username == f"system:serviceaccount:{node.namespace}:mount-test"
    groups = {"system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{node.namespace}"}
    assert set(review_status.user.groups) == groups
    extra = dict(review_status.user.extra)
    (credential,) = extra.pop(f"{EXTRA}/credential-id")
    assert credential.startswith("JTI=")
    machine = await node.client.for_kind(Node).get(NODE)
    assert extra == {
        f"{EXTRA}/pod-name": ["p"],
        f"{EXTRA}/pod-uid": [pod.metadata.uid],
        f"{EXTRA}/node-name": [NODE],
        f"{EXTRA}/node-uid": [machine.metadata.uid],
    }


@concurrent_scenario
async def test_automount_opt_out(node: RealNode) -> None:
    """[sig-auth] ServiceAccounts should allow opting out of API token automount [Conformance]"""
    await account(node, "mount", automountServiceAccountToken=True)
    await account(node, "nomount", automountServiceAccountToken=False)
    expected: dict[str, bool] = {}
    for automounts, name in itertools.product((None, True, False), ("default", "mount", "nomount")):
        pod = f"{name}-{automounts}".lower()
        expected[pod] = automounts if automounts is not None else name != "nomount"
        script = f"ls {HERE} > /dev/termination-log 2>&1; exit 0"
        more = {} if automounts is None else {"automountServiceAccountToken": automounts}
        created = await create_pod(
            node, container(script=script), name=pod, restartPolicy="Never", serviceAccountName=name, **more
        )
        paths = [mount.mountPath for container in created.spec.containers or () for mount in container.volumeMounts]
        assert (paths == [HERE]) is expected[pod], pod
    listed = {pod: node.output_of(await node.wait_until_succeeded(pod)) for pod in expected}
    assert {pod: names.split() == ["ca.crt", "namespace", "token"] for pod, names in listed.items()} == expected


def token_volume(**token: Any) -> dict[str, Any]:
    return {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token", **token}}]}}


@concurrent_scenario
async def test_projected_token(node: RealNode) -> None:
    """[sig-auth] ServiceAccounts should mount projected service account token [Conformance]"""
    output = await node.output("cat /v/token", token_volume(expirationSeconds=3600))
    assert re.fullmatch(r"[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+", output)
    review_status = (await review(node, output)).status
    assert review_status.authenticated
    assert review_status.user.username == f"system:serviceaccount:{node.namespace}:default"


VERIFIES = f"""
import json, ssl, sys, urllib.parse, urllib.request
import jwt
server, audience, wanted = sys.argv[1:]
mine = open("{HERE}/token").read()
tls = ssl.create_default_context(cafile="{HERE}/ca.crt")
def get(url):
    request = urllib.request.Request(url, headers={{"Authorization": "Bearer " + mine}})
    return json.load(urllib.request.urlopen(request, context=tls))
token = open("/v/token").read()
issuer = jwt.decode(token, options={{"verify_signature": False}})["iss"]
assert issuer == wanted, issuer
about = get(server + "/.well-known/openid-configuration")
assert about["issuer"] == issuer, about
assert about["response_types_supported"] == ["id_token"] and about["subject_types_supported"] == ["public"], about
keys = {{key["kid"]: jwt.PyJWK(key) for key in get(server + urllib.parse.urlsplit(about["jwks_uri"]).path)["keys"]}}
head = jwt.get_unverified_header(token)
assert head["alg"] in about["id_token_signing_alg_values_supported"], head
claims = jwt.decode(token, keys[head["kid"]].key, algorithms=[head["alg"]], audience=audience, issuer=issuer)
open("/dev/termination-log", "w").write(claims["sub"])
"""
"""A program that finds the keys of the issuer by OIDC discovery and verifies a token with them. The server of a test
listens on the loopback address, not on the address in `jwks_uri`: only the path of that URL is used."""


@concurrent_scenario
async def test_issuer_discovery(node: RealNode) -> None:
    """[sig-auth] ServiceAccounts ServiceAccountIssuerDiscovery should support OIDC discovery of service account issuer
    [Conformance]"""
    name = urlsplit(ISSUER).hostname
    program = python_program(VERIFIES, f"https://{name}:{urlsplit(node.url).port}", "oidc-discovery-test", ISSUER)
    program.container["volumeMounts"].append({"name": "v", "mountPath": "/v"})
    token = token_volume(expirationSeconds=600, audience="oidc-discovery-test")
    await create_pod(
        node,
        container(**program.container, terminationMessagePolicy="FallbackToLogsOnError"),
        restartPolicy="Never",
        volumes=[*program.volumes, token],
        hostNetwork=True,
        hostAliases=[{"ip": "127.0.0.1", "hostnames": [name]}],
    )
    assert node.output_of(await node.wait_until_succeeded("p")) == f"system:serviceaccount:{node.namespace}:default"
