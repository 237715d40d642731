"""`kubectl create secret`: Secrets with generic data, with a TLS key pair, and with credentials of a registry."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sampan.api import names
from sampan.api.go_compat import gotext
from sampan.kubectl.command_line.command import KubectlGroup
from sampan.kubectl.commands.create.generator import generator_command, metadata
from sampan.kubectl.commands.create.key_sources import (
    Add,
    add_env_files,
    add_files,
    add_literals,
    append_hash_option,
    check_sources,
    from_file_option,
    source_options,
    with_hashed_name,
)
from sampan.machinery.cli_errors import CliError

_DOCKER_CONFIG_KEY = ".dockerconfigjson"
_DOCKER_HUB = "https://index.docker.io/v1/"


def generic_secret(
    name: str,
    namespace: str = "",
    *,
    type: str = "",
    from_file: Sequence[str] = (),
    from_literal: Sequence[str] = (),
    from_env_file: Sequence[str] = (),
    append_hash: bool = False,
) -> dict[str, Any]:
    """Return a Secret with data from literals, files, directories and env files."""
    check_sources(from_file, from_literal, from_env_file)
    data: dict[str, bytes] = {}
    add = _adder(data)
    add_literals(add, from_literal)
    add_files(add, from_file)
    add_env_files(add, from_env_file, what="secret")
    return _secret(name, namespace, type, data, append_hash)


def tls_secret(
    name: str, namespace: str = "", *, cert: str = "", key: str = "", append_hash: bool = False
) -> dict[str, Any]:
    """Return a Secret with a certificate and its private key, which must match."""
    if not (key and cert):
        raise CliError("key and cert must be specified")
    certificate_pem, key_pem = _pem(cert), _pem(key)
    _check_key_pair(certificate_pem, key_pem)
    return _secret(name, namespace, "kubernetes.io/tls", {"tls.crt": certificate_pem, "tls.key": key_pem}, append_hash)


def docker_registry_secret(
    name: str,
    namespace: str = "",
    *,
    docker_username: str = "",
    docker_password: str = "",
    docker_email: str = "",
    docker_server: str = _DOCKER_HUB,
    from_file: Sequence[str] = (),
    append_hash: bool = False,
) -> dict[str, Any]:
    """Return a Secret with credentials of an image registry, from a Docker configuration file or from the flags."""
    data: dict[str, bytes] = {}
    if from_file:
        add_files(_adder(data), [source if "=" in source else f"{_DOCKER_CONFIG_KEY}={source}" for source in from_file])
    elif docker_username and docker_password and docker_server:
        data[_DOCKER_CONFIG_KEY] = _docker_config(docker_username, docker_password, docker_email, docker_server)
    else:
        raise CliError(
            "either --from-file or the combination of --docker-username, --docker-password and --docker-server is "
            "required"
        )
    return _secret(name, namespace, "kubernetes.io/dockerconfigjson", data, append_hash)


def _secret(name: str, namespace: str, type: str, data: dict[str, bytes], append_hash: bool) -> dict[str, Any]:
    value: dict[str, Any] = {"kind": "Secret", "apiVersion": "v1", "metadata": metadata(name, namespace)}
    if data:
        value["data"] = {key: base64.b64encode(content).decode() for key, content in sorted(data.items())}
    if type:
        value["type"] = type
    return with_hashed_name(value) if append_hash else value


def _adder(data: dict[str, bytes]) -> Add:
    def add(key: str, content: bytes) -> None:
        if errors := names.config_map_key(key):
            raise CliError(f"{gotext.quote(key)} is not valid key name for a Secret {';'.join(errors)}")
        if key in data:
            raise CliError(f"cannot add key {key}, another key by that name already exists")
        data[key] = content

    return add


def _docker_config(username: str, password: str, email: str, server: str) -> bytes:
    auth = base64.b64encode(f"{username}:{password}".encode()).decode()
    entry = {"username": username, "password": password, "email": email, "auth": auth}
    fields = ",".join(f'"{key}":{gotext.json_text(text)}' for key, text in entry.items() if text)
    return f'{{"auths":{{{gotext.json_text(server)}:{{{fields}}}}}}}'.encode()


def _pem(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CliError(f"Cannot read file {path}, open {path}: {(error.strerror or str(error)).lower()}") from None


def _check_key_pair(certificate_pem: bytes, key_pem: bytes) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    for content, what in ((certificate_pem, "certificate"), (key_pem, "key")):
        if b"-----BEGIN" not in content:
            raise CliError(f"tls: failed to find any PEM data in {what} input")
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
    except ValueError as error:
        raise CliError(f"x509: {error}") from None
    try:
        key = load_pem_private_key(key_pem, password=None)
    except (TypeError, ValueError):
        raise CliError("tls: failed to parse private key") from None
    encoded = [
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        for public in (certificate.public_key(), key.public_key())
    ]
    if encoded[0] != encoded[1]:
        raise CliError("tls: private key does not match public key")


_generic = generator_command(
    "generic",
    source_options(),
    append_hash_option(),
    click.option("--type", default="", help="Type of the secret."),
    help="Create a secret from literals, files, directories and env files.",
    failure="failed to create secret",
)(generic_secret)

_tls = generator_command(
    "tls",
    click.option("--cert", default="", metavar="FILE", help="Certificate in PEM format."),
    click.option("--key", default="", metavar="FILE", help="Private key of the certificate."),
    append_hash_option(),
    help="Create a secret with a certificate and its private key.",
    failure="failed to create secret",
)(tls_secret)

_docker_registry = generator_command(
    "docker-registry",
    click.option("--docker-username", default="", metavar="NAME", help="User name for the registry."),
    click.option("--docker-password", default="", metavar="TEXT", help="Password for the registry."),
    click.option("--docker-email", default="", metavar="ADDRESS", help="Email address for the registry."),
    click.option("--docker-server", default=_DOCKER_HUB, metavar="URL", help="Address of the registry."),
    from_file_option("Docker configuration file with credentials."),
    append_hash_option(),
    help="Create a secret with credentials of an image registry.",
    failure="failed to create secret",
)(docker_registry_secret)

command = KubectlGroup("secret", help="Create a secret of a type.", commands=[_docker_registry, _generic, _tls])
