"""Validation of a webhook's client configuration: a URL or a service. Conversion webhooks use it as well."""

from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_required

DEFAULT_PORT = 443
_FORM = "; desired format: https://host[/path]"


class Service(Protocol):
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str | None: ...
    @property
    def port(self) -> int | None: ...


class ClientConfig(Protocol):
    @property
    def url(self) -> str | None: ...
    @property
    def service(self) -> Service | None: ...


def validate_client_config(config: ClientConfig, at: str) -> FieldErrors:
    if (config.url is None) == (config.service is None):
        yield FieldError.required(at, "exactly one of url or service is required")
    elif config.url is not None:
        yield from _validate_url(config.url, f"{at}.url")
    elif config.service is not None:
        yield from validate_service_reference(config.service, f"{at}.service")


def _validate_url(text: str, at: str) -> FieldErrors:
    try:
        url = urlsplit(text)
        host = url.netloc.rpartition("@")[2]
        url.port  # noqa: B018 - reading it checks it
    except ValueError as error:
        yield FieldError.required(at, f"url must be a valid URL: {error}{_FORM}")
        return
    if url.scheme != "https":
        yield FieldError.invalid(at, url.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not host:
        yield FieldError.invalid(at, "", f"host must be specified{_FORM}")
    yield from _validate_url_parts(url, at)


def _validate_url_parts(url: SplitResult, at: str) -> FieldErrors:
    user, mark, _ = url.netloc.rpartition("@")
    if mark:
        yield FieldError.invalid(at, user, "user information is not permitted in the URL")
    if url.fragment:
        yield FieldError.invalid(at, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield FieldError.invalid(at, url.query, "query parameters are not permitted in the URL")


def validate_service_reference(service: Service, at: str) -> FieldErrors:
    """Yield the errors of a service. As in kube-apiserver, missing name and namespace are reported for each other."""
    yield from validate_required(service.namespace, f"{at}.name")
    yield from validate_required(service.name, f"{at}.namespace")
    port = service.port if service.port is not None else DEFAULT_PORT
    if messages := names.port_number(port):
        yield FieldError.invalid(f"{at}.port", port, f"port is not valid: {', '.join(messages)}")
    if service.path not in (None, "", "/"):
        yield from _validate_path(service.path or "", f"{at}.path")


def _validate_path(path: str, at: str) -> FieldErrors:
    if path == "//":
        yield FieldError.invalid(at, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield FieldError.invalid(at, path, "must start with a '/'")
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            yield FieldError.invalid(at, path, f"segment[{index}] may not be empty")
        for text in names.dns1123_subdomain(step) if step else ():
            yield FieldError.invalid(at, path, f"segment[{index}]: {text}")
