from types import SimpleNamespace
from typing import Any

import pytest

from sampan.apiserver.admission import service_account
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.registry.store import Store
from tests.apiserver.cluster import NAMESPACE, PODS, Cluster, run_in_cluster
from tests.apiserver.pods import CONTAINER, pod_value

PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ACCOUNTS = f"{NAMESPACE}/serviceaccounts"


async def create_pod(cluster: Cluster, spec: dict[str, Any]) -> Any:
    value = pod_value(spec)
    del value["metadata"]["namespace"]
    return (await cluster.make(PODS, value))["spec"]


def test_a_pod_gets_the_default_account_and_its_token() -> None:
    async def work(cluster: Cluster) -> None:
        spec = await create_pod(cluster, {"initContainers": [{"name": "i", "image": "x"}]})
        assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
        (volume,) = spec["volumes"]
        assert volume["name"].startswith("kube-api-access-")
        namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
        assert volume["projected"] == {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
            ],
        }
        for container in (*spec["initContainers"], *spec["containers"]):
            assert container["volumeMounts"] == [{"name": volume["name"], "readOnly": True, "mountPath": PATH}]

    run_in_cluster(work)


@pytest.mark.parametrize(
    ("account", "pod", "is_mounted"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
def test_automount_setting_of_pod_overrides_service_account(
    account: bool | None, pod: bool | None, is_mounted: bool
) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(ACCOUNTS, {"metadata": {"name": "s"}, "automountServiceAccountToken": account})
        spec = await create_pod(cluster, {"serviceAccountName": "s", "automountServiceAccountToken": pod})
        assert ("volumes" in spec) is is_mounted

    run_in_cluster(work)


def test_token_is_not_mounted_if_container_uses_the_mount_path() -> None:
    async def work(cluster: Cluster) -> None:
        mounts = [{"name": "v", "mountPath": PATH}]
        spec = await create_pod(
            cluster, {"containers": [{**CONTAINER, "volumeMounts": mounts}], "volumes": [{"name": "v"}]}
        )
        assert [volume["name"] for volume in spec["volumes"]] == ["v"]

    run_in_cluster(work)


def test_image_pull_secrets_default_to_secrets_of_service_account() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(ACCOUNTS, {"metadata": {"name": "s"}, "imagePullSecrets": [{"name": "p"}]})
        spec = await create_pod(cluster, {"serviceAccountName": "s"})
        assert spec["imagePullSecrets"] == [{"name": "p"}]
        created = await cluster.create_pod("b", {"serviceAccountName": "s", "imagePullSecrets": [{"name": "q"}]})
        assert created["spec"]["imagePullSecrets"] == [{"name": "q"}]

    run_in_cluster(work)


def test_pod_with_missing_service_account_is_rejected() -> None:
    async def work(cluster: Cluster) -> None:
        text = 'error looking up service account ns/none: serviceaccount "none" not found'
        assert await cluster.try_create_pod({"serviceAccountName": "none"}) == (403, f'pods "a" is forbidden: {text}')

    run_in_cluster(work)


def test_pod_waits_for_default_service_account_of_new_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_account, "_PAUSE_S", 0)
    failed_lookups = 0

    async def work(cluster: Cluster) -> None:
        async def find(store: Store, namespace: str, name: str) -> Any:
            """Look the account up, and create it after the third look-up that does not find it."""
            nonlocal failed_lookups
            account = await lookup.find(store, namespace, name)
            if account is None:
                failed_lookups += 1
                if failed_lookups == 3:
                    await cluster.make(ACCOUNTS, {"metadata": {"name": "default"}})
            return account

        monkeypatch.setattr(service_account, "lookup", SimpleNamespace(find=find))
        await cluster.send("DELETE", f"{ACCOUNTS}/default")
        assert (await create_pod(cluster, {}))["serviceAccountName"] == "default"
        assert failed_lookups == 3

    run_in_cluster(work)


def test_pod_is_rejected_if_default_service_account_stays_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_account, "_PAUSE_S", 0)

    async def work(cluster: Cluster) -> None:
        await cluster.send("DELETE", f"{ACCOUNTS}/default")
        code, message = await cluster.try_create_pod({})
        assert code == 403
        assert message.endswith('serviceaccount "default" not found')

    run_in_cluster(work)


@pytest.mark.parametrize(
    ("spec", "reference"),
    [
        ({"volumes": [{"name": "v", "secret": {"secretName": "o"}}]}, 'volume with secret.secretName="o"'),
        (
            {"containers": [{**CONTAINER, "envFrom": [{"secretRef": {"name": "o"}}]}]},
            'container c with envFrom referencing secret.secretName="o"',
        ),
        (
            {
                "initContainers": [
                    {
                        "name": "i",
                        "image": "x",
                        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "o", "key": "k"}}}],
                    }
                ]
            },
            'init container i with envVar A referencing secret.secretName="o"',
        ),
        ({"imagePullSecrets": [{"name": "o"}]}, 'imagePullSecrets[0].name="o"'),
    ],
)
def test_unlisted_secret_is_rejected_with_enforce_mountable_secrets(spec: dict[str, Any], reference: str) -> None:
    async def work(cluster: Cluster) -> None:
        annotations = {"kubernetes.io/enforce-mountable-secrets": "true"}
        meta = {"name": "strict", "annotations": annotations}
        await cluster.make(ACCOUNTS, {"metadata": meta, "secrets": [{"name": "s"}]})
        kind = "imagePullSecret" if "imagePullSecrets" in spec else "secret"
        text = f"{reference} is not allowed because service account strict does not reference that {kind}"
        assert await cluster.try_create_pod({"serviceAccountName": "strict", **spec}) == (
            403,
            f'pods "a" is forbidden: {text}',
        )

    run_in_cluster(work)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"serviceAccountName": "s"}, "a mirror pod may not reference service accounts"),
        ({"volumes": [{"name": "v", "secret": {"secretName": "o"}}]}, "a mirror pod may not reference secrets"),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
    ],
)
def test_mirror_pod_may_not_reference_service_accounts_or_secrets(spec: dict[str, Any], text: str) -> None:
    async def work(cluster: Cluster) -> None:
        annotations = {"kubernetes.io/config.mirror": "x"}
        refusal = await cluster.try_create_pod({"nodeName": "n", **spec}, annotations=annotations)
        assert refusal == (403, f'pods "a" is forbidden: {text}')

    run_in_cluster(work)
