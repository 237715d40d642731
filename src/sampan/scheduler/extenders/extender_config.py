"""Extender configuration, which has the same form in KubeSchedulerConfiguration and in a classic policy file."""

from __future__ import annotations

import base64
import pathlib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sampan.api import names
from sampan.api.field_errors import FieldError, FieldPath
from sampan.api.values import durations
from sampan.machinery.client.access import Access, AccessError, tls_context


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


def context_of(url: str, tls: TlsSettings) -> ssl.SSLContext | bool:
    """Return the value of aiohttp's `ssl` parameter.

    Raise ValueError for contradictory settings and OSError for a file that cannot be read or is malformed.
    """
    access = Access(
        server=url,
        ca_pem=tls.ca_data or _file(tls.ca_file),
        is_insecure=tls.insecure,
        client_cert_pem=tls.cert_data or _file(tls.cert_file),
        client_key_pem=tls.key_data or _file(tls.key_file),
    )
    if access.is_insecure and access.ca_pem:
        raise ValueError("specifying a root certificates file with the insecure flag is not allowed")
    if bool(access.client_cert_pem) != bool(access.client_key_pem):
        raise ValueError("a client certificate and its key must be given together")
    return tls_context(access)


def _file(name: str) -> bytes:
    return pathlib.Path(name).read_bytes() if name else b""


_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderConfig:
    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    tls: TlsSettings | None = None
    timeout_s: float = _TIMEOUT_S
    is_node_cache_capable: bool = False
    """Whether the extender caches nodes, so that requests carry only their names."""
    managed_resources: frozenset[str] = frozenset()
    """The extender is called only for pods that request one of these resources; empty stands for all pods."""
    ignored_resources: frozenset[str] = frozenset()
    """The managed resources that the scheduler itself does not check."""
    is_ignorable: bool = False
    """Whether scheduling continues without the extender if it fails."""


class _StrictStruct(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _TlsConfig(_StrictStruct):
    insecure: bool = False
    serverName: str = ""
    certFile: str = ""
    keyFile: str = ""
    caFile: str = ""
    certData: str = ""
    keyData: str = ""
    caData: str = ""


class _ManagedResource(_StrictStruct):
    name: str
    ignoredByScheduler: bool = False


class _Extender(_StrictStruct):
    urlPrefix: str
    filterVerb: str = ""
    preemptVerb: str = ""
    prioritizeVerb: str = ""
    bindVerb: str = ""
    weight: int = 0
    enableHTTPS: bool = False
    tlsConfig: _TlsConfig | None = None
    httpTimeout: str | int = 0
    nodeCacheCapable: bool = False
    managedResources: list[_ManagedResource] = []
    ignorable: bool = False


def read_extenders(values: Sequence[Any], error: Callable[[str], Exception]) -> list[ExtenderConfig]:
    """Parse the extenders; raise `error` with the name of the invalid field."""
    path = FieldPath("extenders")
    read = [_read(extender, path[index], error) for index, extender in enumerate(values)]
    errors = _check(read, path)
    if errors:
        raise error("; ".join(map(str, errors)))
    return [_config_of(extender, path[index], error) for index, extender in enumerate(read)]


def _read(value: Any, path: FieldPath, error: Callable[[str], Exception]) -> _Extender:
    try:
        return msgspec.convert(value, _Extender)
    except msgspec.ValidationError as exception:
        problem, _, location = str(exception).rpartition(" - at `$")
        raise error(f"{path}{location.rstrip('`')}: {problem}" if problem else f"{path}: {exception}") from None


def _check(extenders: Sequence[_Extender], path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        if extender.prioritizeVerb and extender.weight <= 0:
            errors.append(
                FieldError.invalid(path[index] / "weight", extender.weight, "must have a positive weight applied to it")
            )
        for number, resource in enumerate(extender.managedResources):
            errors += _check_resource(resource.name, path[index] / "managedResources", number, managed)
            managed.add(resource.name)
    binders = sum(bool(extender.bindVerb) for extender in extenders)
    if binders > 1:
        summary = f"found {binders} extenders implementing bind"
        errors.append(FieldError.invalid(path, summary, "only one extender can implement bind"))
    return errors


def _check_resource(name: str, path: FieldPath, number: int, used_names: set[str]) -> list[FieldError]:
    name_path = path[number] / "name"
    errors = [FieldError.invalid(name_path, name, message) for message in names.label_key(name)]
    if not errors and not names.is_extended_resource(name):
        errors.append(FieldError.invalid(name_path, name, "is an invalid extended resource name"))
    if name in used_names:
        errors.append(FieldError.invalid(name_path, name, "duplicate extender managed resource name"))
    return errors


def _config_of(extender: _Extender, path: FieldPath, error: Callable[[str], Exception]) -> ExtenderConfig:
    try:
        timeout_s = durations.parse_duration(str(extender.httpTimeout)) / 1e9 or _TIMEOUT_S
        tls = _tls(extender)
        if tls is not None:
            context_of(extender.urlPrefix, tls)
    except (ValueError, OSError, AccessError) as exception:
        raise error(f"{path}: {exception}") from None
    resources = extender.managedResources
    return ExtenderConfig(
        url_prefix=extender.urlPrefix,
        filter_verb=extender.filterVerb,
        preempt_verb=extender.preemptVerb,
        prioritize_verb=extender.prioritizeVerb,
        bind_verb=extender.bindVerb,
        weight=extender.weight,
        tls=tls,
        timeout_s=timeout_s,
        is_node_cache_capable=extender.nodeCacheCapable,
        managed_resources=frozenset(resource.name for resource in resources),
        ignored_resources=frozenset(resource.name for resource in resources if resource.ignoredByScheduler),
        is_ignorable=extender.ignorable,
    )


def _tls(extender: _Extender) -> TlsSettings | None:
    """Return the TLS settings; with `enableHTTPS` and no CA the server's certificate is not verified."""
    config = extender.tlsConfig
    if config is None and not extender.enableHTTPS:
        return None
    config = config or _TlsConfig()
    ca = base64.b64decode(config.caData, validate=True)
    return TlsSettings(
        insecure=config.insecure or (extender.enableHTTPS and not config.caFile and not ca),
        server_name=config.serverName,
        cert_file=config.certFile,
        key_file=config.keyFile,
        ca_file=config.caFile,
        cert_data=base64.b64decode(config.certData, validate=True),
        key_data=base64.b64decode(config.keyData, validate=True),
        ca_data=ca,
    )
