"""`kubectl create ingress`: an Ingress from rules of the form host/path=service:port[,tls[=secret]]."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from sampan.api.values import int_or_string
from sampan.kubectl.commands.create.generator import generator_command, metadata
from sampan.machinery.cli_errors import CliError

_is_rule = re.compile(r"[\w*\-.]*/.*=[\w-]+:[\w-]+(,tls=?([\w-]+)?)?", re.ASCII).match
_MISSING_RULES_MESSAGE = (
    "not enough information provided: every ingress has to either specify a default-backend (which catches all "
    "traffic) or a list of rules (which catch specific paths)"
)


def ingress(
    name: str,
    namespace: str = "",
    *,
    rule: Sequence[str] = (),
    default_backend: str = "",
    ingress_class: str = "",
    annotation: Sequence[str] = (),
) -> dict[str, Any]:
    _validate(rule, default_backend, annotation)
    spec: dict[str, Any] = {}
    if ingress_class:
        spec["ingressClassName"] = ingress_class
    if default_backend:
        spec["defaultBackend"] = _backend(default_backend)
    if tls := _tls(rule):
        spec["tls"] = tls
    if rules := _rules(rule):
        spec["rules"] = rules
    annotations = dict(sorted(dict(pair.split("=", 1) for pair in annotation).items()))
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
        host, _, rest = rule.partition(",")[0].partition("/")
        path, _, backend = rest.partition("=")
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
    click.option("--class", "ingress_class", default="", metavar="NAME", help="Name of the ingress class."),
    click.option(
        "--rule",
        multiple=True,
        metavar="RULE",
        help="Rule in the form host/path=service:port[,tls[=secret]]; repeatable.",
    ),
    click.option("--default-backend", default="", metavar="SERVICE:PORT", help="Backend of all other requests."),
    click.option("--annotation", multiple=True, metavar="KEY=VALUE", help="Annotation of the ingress; repeatable."),
    help="Create an ingress.",
    failure="failed to create ingress:",
    aliases=("ing",),
)(ingress)
