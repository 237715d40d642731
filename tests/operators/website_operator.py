"""An operator written with kopf: a Website becomes a ConfigMap with its page. Run with `kopf run`, as its users do.

WEBHOOK_CERTIFICATES is the directory with the certificate, the key and the CA of its webhook server.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import kopf
from lightkube import ApiError, Client, codecs
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

PLURAL = "websites"
api = Client()


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    certificates = Path(os.environ["WEBHOOK_CERTIFICATES"])
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        certfile=str(certificates / "tls.crt"),
        pkeyfile=str(certificates / "tls.key"),
        cafile=str(certificates / "ca.crt"),
    )
    settings.admission.managed = "hooks.sites.example.com"
    settings.watching.initial_streaming = True
    settings.execution.default_backoff = 0.1


@kopf.on.mutate(PLURAL, operations=["CREATE", "UPDATE"])
def set_theme(spec: kopf.Spec, patch: kopf.Patch, warnings: list[str], **_: Any) -> None:
    if "theme" not in spec:
        patch.spec["theme"] = "plain"
    if spec.get("theme") == "blink":
        warnings.append("theme blink is deprecated, use plain")


@kopf.on.validate(PLURAL, operations=["CREATE", "UPDATE"])
def check_title(spec: kopf.Spec, warnings: list[str], **_: Any) -> None:
    if spec["title"] == "forbidden":
        raise kopf.AdmissionError(f"title {spec['title']!r} is not allowed", code=422)
    if len(spec["title"]) > 20:
        warnings.append("titles of more than 20 characters are cut")


@kopf.on.validate(PLURAL, operation="DELETE")
def check_deletion(spec: kopf.Spec, **_: Any) -> None:
    if spec.get("locked"):
        raise kopf.AdmissionError("the website is locked", code=409)


@kopf.on.create(PLURAL)
def create_page(
    spec: kopf.Spec, name: str, namespace: str | None, retry: int, body: kopf.Body, **_: Any
) -> dict[str, object]:
    if spec["title"] == "impossible":
        kopf.warn(body, reason="Impossible", message="no page can have this title")
        raise kopf.PermanentError("no page can have this title")
    if spec["title"] == "later" and retry == 0:
        raise kopf.TemporaryError("not yet", delay=0.01)
    page: dict[str, Any] = {"metadata": {"name": f"{name}-page"}, "data": {"html": f"<h1>{spec['title']}</h1>"}}
    kopf.adopt(page, owner=body)
    api.create(codecs.from_dict({"apiVersion": "v1", "kind": "ConfigMap", **page}))
    kopf.info(body, reason="PageCreated", message=f"created page {name}-page")
    return {"page": f"{name}-page", "attempts": retry + 1}


@kopf.on.field(PLURAL, field="spec.title")
def change_title(old: Any, new: Any, name: str, namespace: str | None, patch: kopf.Patch, **_: Any) -> None:
    if old is not None:
        api.patch(ConfigMap, f"{name}-page", {"data": {"html": f"<h1>{new}</h1>"}}, namespace=namespace)
        patch.status["formerTitle"] = old


@kopf.on.delete(PLURAL)
def archive(spec: kopf.Spec, name: str, namespace: str | None, **_: Any) -> None:
    metadata = ObjectMeta(name=f"{name}-archive", namespace=namespace)
    try:
        api.create(ConfigMap(metadata=metadata, data={"title": spec["title"]}))
    except ApiError as error:
        if error.status.code != 403:  # the namespace itself is deleted
            raise


@kopf.timer(PLURAL, interval=0.02, annotations={"check": "yes"})
def count_checks(status: kopf.Status, patch: kopf.Patch, **_: Any) -> None:
    patch.status["checks"] = status.get("checks", 0) + 1


@kopf.on.event("configmaps", labels={"reported": "yes"})
def report(event: Any, name: str, namespace: str | None, **_: Any) -> None:
    if event["type"] == "DELETED":
        metadata = ObjectMeta(name=f"{name}-was-deleted", namespace=namespace)
        api.create(ConfigMap(metadata=metadata))
