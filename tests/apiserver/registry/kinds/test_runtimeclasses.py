"""RuntimeClasses: rules that the golden replay does not cover."""

from tests.apiserver.cluster import Cluster, run_in_cluster
from tests.apiserver.validation_errors import errors_of_new, named_object

PATH = "/apis/node.k8s.io/v1/runtimeclasses"


def test_tolerations_that_differ_only_in_seconds_are_duplicates() -> None:
    twice = [
        {"key": "a", "operator": "Exists", "effect": "NoExecute"},
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3},
    ]
    assert errors_of_new(PATH, named_object(handler="h", scheduling={"tolerations": twice})) == [
        'scheduling.tolerations[1]: Duplicate value: {"Key":"a","Operator":"Exists","Value":"","Effect":"NoExecute",'
        '"TolerationSeconds":3}'
    ]


def test_deprecated_node_labels_get_a_warning() -> None:
    async def work(cluster: Cluster) -> None:
        value = named_object(handler="h", scheduling={"nodeSelector": {"beta.kubernetes.io/os": "linux"}})
        assert await cluster.collect_warnings(PATH, value) == [
            'scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead'
        ]

    run_in_cluster(work)


def test_put_creates_and_update_requires_resource_version() -> None:
    async def work(cluster: Cluster) -> None:
        value = named_object(handler="h")
        assert (await cluster.send("PUT", f"{PATH}/a", value)).code == 201
        again = await cluster.send("PUT", f"{PATH}/a", value)
        assert again.code == 422
        assert again.json["message"].endswith(
            "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        )

    run_in_cluster(work)
