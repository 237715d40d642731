"""Where a webhook is, as the client configurations of admissionregistration.k8s.io and apiextensions.k8s.io say it."""

from __future__ import annotations

from typing import Protocol


class WebhookService(Protocol):
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str | None: ...
    @property
    def port(self) -> int | None: ...


class WebhookLocation(Protocol):
    """A URL or a service."""

    @property
    def url(self) -> str | None: ...
    @property
    def service(self) -> WebhookService | None: ...


class CallableWebhook(WebhookLocation, Protocol):
    """A location with the CA certificates that sign its certificate."""

    @property
    def caBundle(self) -> bytes: ...
