"""`kubectl create secret`: Secrets with generic data, with a TLS key pair, and with credentials of a registry."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sampan.api import names
from sampan.api.go_compat import gotext
from sampan.kubectl.command import KubectlGroup
from sampan.kubectl.command_line.flags import string_flag, string_slice_flag
from sampan.kubectl.commands.create.generator import (
    CreationOptions,
    NameOptions,
    creation_flags,
    generator_command,
    metadata,
    pure,
)
from sampan.kubectl.commands.create.key_sources import (
    Add,
    SourceOptions,
    add_env_files,
    add_files,
    add_literals,
    append_hash_flag,
    source_flags,
    with_hashed_name,
)
from sampan.machinery.cli_errors import CliError

_DOCKER_CONFIG_KEY = ".dockerconfigjson"
_DOCKER_HUB = "https://index.docker.io/v1/"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenericSecretOptions(NameOptions):
    sources: SourceOptions = source_flags()
    append_hash: bool = append_hash_flag()
    type: str = string_flag("--type", help="Type of the secret.")
    creation: CreationOptions = creation_flags()


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSecretOptions(NameOptions):
    cert: str = string_flag("--cert", metavar="FILE", help="Certificate in PEM format.")
    key: str = string_flag("--key", metavar="FILE", help="Private key of the certificate.")
    append_hash: bool = append_hash_flag()
    creation: CreationOptions = creation_flags()


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerRegistrySecretOptions(NameOptions):
    docker_username: str = string_flag("--docker-username", metavar="NAME", help="User name for the registry.")
    docker_password: str = string_flag("--docker-password", metavar="TEXT", help="Password for the registry.")
    docker_email: str = string_flag("--docker-email", metavar="ADDRESS", help="Email address for the registry.")
    docker_server: str = string_flag(
        "--docker-server", default=_DOCKER_HUB, metavar="URL", help="Address of the registry."
    )
    from_file: tuple[str, ...] = string_slice_flag(
        "--from-file", metavar="[KEY=]PATH", help="Docker configuration file with credentials."
    )
    append_hash: bool = append_hash_flag()
    creation: CreationOptions = creation_flags()


def generic_secret(name: str, namespace: str, options: GenericSecretOptions) -> dict[str, Any]:
    """Return a Secret with data from literals, files, directories and env files."""
    options.sources.check()
    data: dict[str, bytes] = {}
    add = _adder(data)
    add_literals(add, options.sources.from_literal)
    add_files(add, options.sources.from_file)
    add_env_files(add, options.sources.from_env_file, kind="secret")
    return _secret(name, namespace, options.type, data, options.append_hash)


def tls_secret(name: str, namespace: str, options: TlsSecretOptions) -> dict[str, Any]:
    """Return a Secret with a certificate and its private key, which must match."""
    if not (options.key and options.cert):
        raise CliError("key and cert must be specified")
    certificate_pem, key_pem = _pem(options.cert), _pem(options.key)
    _check_key_pair(certificate_pem, key_pem)
    return _secret(
        name, namespace, "kubernetes.io/tls", {"tls.crt": certificate_pem, "tls.key": key_pem}, options.append_hash
    )


def docker_registry_secret(name: str, namespace: str, options: DockerRegistrySecretOptions) -> dict[str, Any]:
    """Return a Secret with credentials of an image registry, from a Docker configuration file or from the flags."""
    data: dict[str, bytes] = {}
    if options.from_file:
        sources = [source if "=" in source else f"{_DOCKER_CONFIG_KEY}={source}" for source in options.from_file]
        add_files(_adder(data), sources)
    elif options.docker_username and options.docker_password and options.docker_server:
        data[_DOCKER_CONFIG_KEY] = _docker_config(options)
    else:
        raise CliError(
            "either --from-file or the combination of --docker-username, --docker-password and --docker-server is "
            "required"
        )
    return _secret(name, namespace, "kubernetes.io/dockerconfigjson", data, options.append_hash)


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


def _docker_config(options: DockerRegistrySecretOptions) -> bytes:
    username, password = options.docker_username, options.docker_password
    auth = base64.b64encode(f"{username}:{password}".encode()).decode()
    entry = {"username": username, "password": password, "email": options.docker_email, "auth": auth}
    fields = ",".join(f'"{key}":{gotext.json_text(text)}' for key, text in entry.items() if text)
    return f'{{"auths":{{{gotext.json_text(options.docker_server)}:{{{fields}}}}}}}'.encode()


def _pem(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CliError(f"Cannot read file {path}, open {path}: {(error.strerror or str(error)).lower()}") from None


def _check_key_pair(certificate_pem: bytes, key_pem: bytes) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    for content, name in ((certificate_pem, "certificate"), (key_pem, "key")):
        if b"-----BEGIN" not in content:
            raise CliError(f"tls: failed to find any PEM data in {name} input")
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
    GenericSecretOptions,
    pure(generic_secret),
    help="Create a secret from literals, files, directories and env files.",
    failure="failed to create secret",
)

_tls = generator_command(
    "tls",
    TlsSecretOptions,
    pure(tls_secret),
    help="Create a secret with a certificate and its private key.",
    failure="failed to create secret",
)

_docker_registry = generator_command(
    "docker-registry",
    DockerRegistrySecretOptions,
    pure(docker_registry_secret),
    help="Create a secret with credentials of an image registry.",
    failure="failed to create secret",
)

command = KubectlGroup("secret", help="Create a secret of a type.", commands=[_docker_registry, _generic, _tls])
