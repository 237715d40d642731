"""An operator written with kopf: for each Fleet it keeps as many Pods as the fleet has boats.

Run it with `kopf run fleets.py --all-namespaces`.
"""

from typing import Any

import kopf
from lightkube import Client, codecs
from lightkube.resources.core_v1 import Pod

LABEL = "fleets.example.com/name"


@kopf.on.create("fleets")
@kopf.on.update("fleets", field="spec")
def sync(spec: kopf.Spec, name: str, namespace: str, body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
    """Create the pods that are missing, and delete those that are too many."""
    client = Client()
    boats = spec["boats"]
    present = {pod.metadata.name for pod in client.list(Pod, namespace=namespace, labels={LABEL: name})}
    wanted = {f"{name}-{number}" for number in range(boats)}
    for pod_name in sorted(wanted - present):
        client.create(codecs.from_dict(_pod(pod_name, name, body)), namespace=namespace)
    for pod_name in sorted(present - wanted):
        client.delete(Pod, pod_name, namespace=namespace)
    patch.status["boats"] = boats
    kopf.info(body, reason="Synced", message=f"the fleet has {boats} boats")


def _pod(name: str, fleet: str, owner: kopf.Body) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {LABEL: fleet}},
        "spec": {"containers": [{"name": "boat", "image": "boat"}]},
    }
    kopf.adopt(pod, owner=owner)
    return pod
