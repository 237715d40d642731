"""Writes a greeting into a ConfigMap for every ServiceAccount of a namespace that asks for one by a label."""

from kubernetes import client, config

WANTS = "greeter/wants"


def greet(namespace: str) -> list[str]:
    """Write the greetings that are missing; the names of those who were greeted now."""
    config.load_kube_config()
    core = client.CoreV1Api()
    greeted = []
    for account in core.list_namespaced_service_account(namespace, label_selector=WANTS).items:
        greeting = account.metadata.labels[WANTS]
        body = client.V1ConfigMap(
            metadata=client.V1ObjectMeta(
                name=f"greeting-{account.metadata.name}",
                owner_references=[
                    client.V1OwnerReference(
                        api_version="v1", kind="ServiceAccount", name=account.metadata.name, uid=account.metadata.uid
                    )
                ],
            ),
            data={"text": f"{greeting}, {account.metadata.name}!"},
        )
        try:
            core.create_namespaced_config_map(namespace, body)
        except client.ApiException as error:
            if error.status != 409:
                raise
        else:
            greeted.append(account.metadata.name)
    return greeted
