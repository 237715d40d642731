"""`kubectl create ingress`: an Ingress from rules of the form host/path=service:port[,tls[=secret]]."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api.values import int_or_string
from sampan.kubectl.command_line.flags import string_array_flag, string_flag
from sampan.kubectl.commands.create.generator import (
    CreationOptions,
    NameOptions,
    creation_flags,
    generator_command,
    metadata,
    pure,
)
from sampan.machinery.cli_errors import CliError

_is_rule = re.compile(r"[\w*\-.]*/.*=[\w-]+:[\w-]+(,tls=?([\w-]+)?)?", re.ASCII).match
_MISSING_RULES_MESSAGE = (
    "not enough information provided: every ingress has to either specify a default-backend (which catches all "
    "traffic) or a list of rules (which catch specific paths)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIngressOptions(NameOptions):
    ingress_class: str = string_flag("--class", metavar="NAME", help="Name of the ingress class.")
    rule: tuple[str, ...] = string_array_flag(
        "--rule", metavar="RULE", help="Rule in the form host/path=service:port[,tls[=secret]]; repeatable."
    )
    default_backend: str = string_flag(
        "--default-backend", metavar="SERVICE:PORT", help="Backend of all other requests."
    )
    annotation: tuple[str, ...] = string_array_flag(
        "--annotation", metavar="KEY=VALUE", help="Annotation of the ingress; repeatable."
    )
    creation: CreationOptions = creation_flags()


def ingress(name: str, namespace: str, options: CreateIngressOptions) -> dict[str, Any]:
    _validate(options.rule, options.default_backend, options.annotation)
    spec: dict[str, Any] = {}
    if options.ingress_class:
        spec["ingressClassName"] = options.ingress_class
    if options.default_backend:
        spec["defaultBackend"] = _backend(options.default_backend)
    if tls := _tls(options.rule):
        spec["tls"] = tls
    if rules := _rules(options.rule):
        spec["rules"] = rules
    annotations = dict(sorted(dict(pair.split("=", 1) for pair in options.annotation).items()))
    return {
        "kind": "Ingress",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": metadata(name, namespace, annotations=annotations),
        "spec": spec,
        "status": {"loadBalancer": {}},
    }


def _validate(rules: Sequence[str], default_backend: str, annotations: Sequence[str]) -> None:
    if not (rules or default_backend):
        raise CliError(_MISSING_RULES_MESSAGE)
    for rule in rules:
        if not _is_rule(rule):
            raise CliError(f"rule {rule} is invalid and should be in format host/path=svcname:svcport[,tls[=secret]]")
    for annotation in annotations:
        if "=" not in annotation:
            raise CliError(f"annotation {annotation} is invalid and should be in format key=[value]")
    if default_backend and default_backend.count(":") != 1:
        raise CliError("default-backend should be in format servicename:serviceport")


def _rules(rules: Sequence[str]) -> list[dict[str, Any]]:
    """Return one rule per host with the paths in the order of the flags."""
    paths_of: dict[str, list[dict[str, Any]]] = {}
    for rule in rules:
        host, _, path_and_backend = rule.partition(",")[0].partition("/")
        path, _, backend = path_and_backend.partition("=")
        is_prefix = f"/{path}".endswith("*")
        paths_of.setdefault(host, []).append(
            {
                "path": f"/{path}".removesuffix("*") if is_prefix else f"/{path}",
                "pathType": "Prefix" if is_prefix else "Exact",
                "backend": _backend(backend.partition("=")[0]),
            }
        )
    return [({"host": host} if host else {}) | {"http": {"paths": paths}} for host, paths in paths_of.items()]


def _tls(rules: Sequence[str]) -> list[dict[str, Any]]:
    """Return one entry per Secret with the hosts whose rules request TLS."""
    entries: list[dict[str, Any]] = []
    hosts_with_tls: set[str] = set()
    for rule in rules:
        parts = rule.split(",")
        host = rule.partition("/")[0]
        if len(parts) != 2 or host in hosts_with_tls:
            continue
        hosts_with_tls.add(host)
        secret = parts[1].partition("=")[2].partition("=")[0]
        entry = next((entry for entry in entries if entry.get("secretName", "") == secret), None)
        if entry is not None:
            entry.setdefault("hosts", []).append(host)
        elif host or secret:
            entries.append(({"hosts": [host]} if host else {}) | ({"secretName": secret} if secret else {}))
    return entries


def _backend(text: str) -> dict[str, Any]:
    service, _, port_text = text.partition(":")
    port = int_or_string.parse(port_text.partition(":")[0])
    return {"service": {"name": service, "port": {"number" if isinstance(port, int) else "name": port}}}


command = generator_command(
    "ingress",
    CreateIngressOptions,
    pure(ingress),
    help="Create an ingress.",
    failure="failed to create ingress:",
    aliases=("ing",),
)
