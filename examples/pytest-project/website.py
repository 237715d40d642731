"""An operator in one function: every Website gets a Deployment, a Service and a status."""

from kubernetes import client
from kubernetes.client.exceptions import ApiException

GROUP, VERSION, PLURAL = "example.com", "v1", "websites"
_ATTEMPTS = 5


def reconcile(api: client.ApiClient, namespace: str, name: str) -> None:
    """Bring the objects of a Website to what its spec says. Conflicts with other writers are retried."""
    websites = client.CustomObjectsApi(api)
    website = websites.get_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, name)
    _retried(lambda: _ensure_deployment(api, website))
    _retried(lambda: _ensure_service(api, website))
    deployment = client.AppsV1Api(api).read_namespaced_deployment(name, namespace)
    ready = deployment.status.ready_replicas or 0
    status = {"readyReplicas": ready, "phase": "Ready" if ready == website["spec"]["replicas"] else "Progressing"}
    websites.patch_namespaced_custom_object_status(GROUP, VERSION, namespace, PLURAL, name, {"status": status})


def _ensure_deployment(api: client.ApiClient, website: dict) -> None:
    apps, metadata, spec = client.AppsV1Api(api), website["metadata"], website["spec"]
    labels = {"website": metadata["name"]}
    container = {"name": "web", "image": spec["image"]}
    body = {
        "metadata": {"name": metadata["name"], "labels": labels, "ownerReferences": [_owner(website)]},
        "spec": {
            "replicas": spec["replicas"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    try:
        apps.create_namespaced_deployment(metadata["namespace"], body)
    except ApiException as error:
        if error.status != 409:
            raise
        current = apps.read_namespaced_deployment(metadata["name"], metadata["namespace"])
        is_current = current.spec.template.spec.containers[0].image == spec["image"]
        if not is_current or current.spec.replicas != spec["replicas"]:
            current.spec.replicas, current.spec.template.spec.containers[0].image = spec["replicas"], spec["image"]
            apps.replace_namespaced_deployment(metadata["name"], metadata["namespace"], current)


def _ensure_service(api: client.ApiClient, website: dict) -> None:
    metadata = website["metadata"]
    spec = {"selector": {"website": metadata["name"]}, "ports": [{"port": 80}]}
    body = {"metadata": {"name": metadata["name"], "ownerReferences": [_owner(website)]}, "spec": spec}
    try:
        client.CoreV1Api(api).create_namespaced_service(metadata["namespace"], body)
    except ApiException as error:
        if error.status != 409:
            raise


def _owner(website: dict) -> dict:
    metadata = website["metadata"]
    reference = {"apiVersion": website["apiVersion"], "kind": "Website", "controller": True}
    return {**reference, "name": metadata["name"], "uid": metadata["uid"]}


def _retried(action) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            return action()
        except ApiException as error:
            if error.status not in (409, 500) or attempt == _ATTEMPTS - 1:
                raise
