"""`kubectl config set-cluster`, `set-context` and `set-credentials`: create and change entries."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.command_line.flags import (
    arguments,
    bool_flag,
    changed_flags,
    string_array_flag,
    string_flag,
    string_slice_flag,
)
from sampan.kubectl.commands.config.files import ConfigFiles, Entry, usage_failure
from sampan.kubectl.errors import KubectlError

_MODES = ("IfAvailable", "Always", "Never")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetClusterOptions:
    words: tuple[str, ...] = arguments()
    server: str = string_flag("--server", metavar="URL", help="Address of the API server.")
    tls_server_name: str = string_flag(
        "--tls-server-name", metavar="NAME", help="Name that the server's certificate must have."
    )
    insecure: bool = bool_flag("--insecure-skip-tls-verify", help="Do not verify the server's certificate.")
    certificate_authority: str = string_flag(
        "--certificate-authority", metavar="FILE", help="Certificate of the authority."
    )
    embed_certs: bool = bool_flag("--embed-certs", help="Store the content of the certificate in the kubeconfig.")
    proxy_url: str = string_flag("--proxy-url", metavar="URL", help="Proxy for requests to the server.")
    changed_flags: frozenset[str] = changed_flags()


@KubectlCommand.define("set-cluster", SetClusterOptions)
def set_cluster(factory: Factory, options: SetClusterOptions) -> None:
    """Create or change a cluster entry."""
    if len(options.words) != 1:
        raise usage_failure(f"Unexpected args: [{' '.join(options.words)}]")
    if not options.words[0]:
        raise KubectlError("you must specify a non-empty cluster name")
    path = options.certificate_authority
    if options.insecure and path:
        raise KubectlError("you cannot specify a certificate authority and insecure mode at the same time")
    if options.embed_certs:
        if not path:
            raise KubectlError("you must specify a --certificate-authority to embed")
        _check_file("certificate-authority", path)
    files, changed = ConfigFiles(factory.options.kubeconfig), options.changed_flags
    entry = dict(files.load().entries["clusters"].get(options.words[0], {}))
    if "server" in changed:
        entry |= {"server": options.server, "tls-server-name": ""}
    for key, text in (("tls-server-name", options.tls_server_name), ("proxy-url", options.proxy_url)):
        if key in changed:
            entry[key] = text
    if "insecure-skip-tls-verify" in changed:
        entry["insecure-skip-tls-verify"] = options.insecure
        if options.insecure:
            entry |= {"certificate-authority": "", "certificate-authority-data": ""}
    if "certificate-authority" in changed:
        _set_file(entry, "certificate-authority", path, is_embedded=options.embed_certs)
        entry["insecure-skip-tls-verify"] = False
    files.write_entry("clusters", options.words[0], entry)
    click.echo(f"Cluster {quote_text(options.words[0])} set.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetContextOptions:
    words: tuple[str, ...] = arguments()
    is_current: bool = bool_flag("--current", help="Change the current context.")
    cluster: str = string_flag("--cluster", metavar="NAME", help="Cluster of the context.")
    user: str = string_flag("--user", metavar="NAME", help="User of the context.")
    namespace: str = string_flag("-n", "--namespace", metavar="NAMESPACE", help="Namespace of the context.")
    changed_flags: frozenset[str] = changed_flags()


@KubectlCommand.define("set-context", SetContextOptions)
def set_context(factory: Factory, options: SetContextOptions) -> None:
    """Create or change a context entry."""
    if len(options.words) > 1:
        raise usage_failure(f"Unexpected args: [{' '.join(options.words)}]")
    name = options.words[0] if options.words else ""
    if not (name or options.is_current):
        raise KubectlError("you must specify a non-empty context name or --current")
    if name and options.is_current:
        raise KubectlError("you cannot specify both a context name and --current")
    files = ConfigFiles(factory.options.kubeconfig)
    config = files.load()
    if options.is_current:
        name = config.current_context
        if not name:
            raise KubectlError("no current context is set")
    contexts = config.entries["contexts"]
    entry = dict(contexts.get(name, {}))
    values = {"cluster": options.cluster, "user": options.user, "namespace": options.namespace}
    entry |= {key: text for key, text in values.items() if key in options.changed_flags}
    files.write_entry("contexts", name, entry)
    click.echo(f"Context {quote_text(name)} {'modified' if name in contexts else 'created'}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCredentialsOptions:
    words: tuple[str, ...] = arguments()
    client_certificate: str = string_flag("--client-certificate", metavar="FILE", help="Client certificate.")
    client_key: str = string_flag("--client-key", metavar="FILE", help="Key of the client certificate.")
    embed_certs: bool = bool_flag("--embed-certs", help="Store the content of certificate and key in the kubeconfig.")
    token: str = string_flag("--token", metavar="TOKEN", help="Bearer token.")
    username: str = string_flag("--username", metavar="NAME", help="User name for basic authentication.")
    password: str = string_flag("--password", metavar="TEXT", help="Password for basic authentication.")
    auth_provider: str = string_flag("--auth-provider", metavar="NAME", help="Auth provider, for example oidc.")
    auth_provider_arg: tuple[str, ...] = string_slice_flag(
        "--auth-provider-arg", metavar="KEY=VALUE", help="Argument of the auth provider."
    )
    exec_command: str = string_flag("--exec-command", metavar="COMMAND", help="Command of the exec credential plugin.")
    exec_api_version: str = string_flag(
        "--exec-api-version", metavar="VERSION", help="API version of the exec credential plugin."
    )
    exec_arg: tuple[str, ...] = string_slice_flag(
        "--exec-arg", metavar="ARG", help="Argument of the credential plugin."
    )
    exec_env: tuple[str, ...] = string_array_flag(
        "--exec-env", metavar="KEY=VALUE", help="Environment variable of the plugin."
    )
    exec_interactive_mode: str = string_flag(
        "--exec-interactive-mode",
        metavar="MODE",
        help="Whether the program may ask the user: IfAvailable, Always or Never.",
    )
    exec_provide_cluster_info: bool = bool_flag(
        "--exec-provide-cluster-info", help="Pass data about the cluster to the plugin."
    )
    changed_flags: frozenset[str] = changed_flags()

    def certificate_files(self) -> Sequence[tuple[str, str]]:
        """Return the flags of the client certificate and its key, with the paths of the files."""
        return ("client-certificate", self.client_certificate), ("client-key", self.client_key)


@KubectlCommand.define("set-credentials", SetCredentialsOptions)
def set_credentials(factory: Factory, options: SetCredentialsOptions) -> None:
    """Create or change a user entry."""
    if len(options.words) != 1:
        raise usage_failure(f"unexpected args: [{' '.join(options.words)}]")
    _check_credentials(options.words[0], options)
    files = ConfigFiles(factory.options.kubeconfig)
    entry = dict(files.load().entries["users"].get(options.words[0], {}))
    _change_credentials(entry, options)
    files.write_entry("users", options.words[0], entry)
    click.echo(f"User {quote_text(options.words[0])} set.")


def _check_credentials(name: str, options: SetCredentialsOptions) -> None:
    if not name:
        raise KubectlError("you must specify a non-empty user name")
    if options.token and (options.username or options.password):
        methods = "--token, --username/--password"
        raise KubectlError(f"you cannot specify more than one authentication method at the same time: {methods}")
    if options.embed_certs:
        if not (options.client_certificate or options.client_key):
            raise KubectlError("you must specify a --client-certificate or --client-key to embed")
        for flag, path in options.certificate_files():
            if path:
                _check_file(flag, path)
    if "exec-interactive-mode" in options.changed_flags and options.exec_interactive_mode not in _MODES:
        raise KubectlError("invalid interactive mode type, can be only IfAvailable, Never, Always")


def _change_credentials(entry: Entry, options: SetCredentialsOptions) -> None:
    changed = options.changed_flags
    for flag, path in options.certificate_files():
        if flag in changed:
            _set_file(entry, flag, path, is_embedded=options.embed_certs)
    values = {"token": options.token, "username": options.username, "password": options.password}
    entry |= {key: text for key, text in values.items() if key in changed}
    if options.token:
        entry |= {"username": "", "password": ""}
    elif options.username or options.password:
        entry["token"] = ""
    if "auth-provider" in changed:
        present = entry.get("auth-provider") or {}
        if present.get("name") != options.auth_provider:
            entry["auth-provider"] = {"name": options.auth_provider}
    if entry.get("auth-provider"):
        arguments, removed = _pairs(options.auth_provider_arg, "auth-provider-arg")
        present = dict(entry["auth-provider"].get("config") or {})
        config = {key: value for key, value in (present | arguments).items() if key not in removed}
        entry["auth-provider"] = {**entry["auth-provider"], "config": config}
    _change_exec(entry, options)


def _change_exec(entry: Entry, options: SetCredentialsOptions) -> None:
    changed = options.changed_flags
    plugin = dict(entry.get("exec") or {})
    if "exec-command" in changed:
        plugin |= {"command": options.exec_command, "args": None}
    if not plugin:
        return
    if "exec-api-version" in changed:
        plugin["apiVersion"] = options.exec_api_version
    if options.exec_arg:
        plugin["args"] = list(options.exec_arg)
    if "exec-interactive-mode" in changed:
        plugin["interactiveMode"] = options.exec_interactive_mode
    if "exec-provide-cluster-info" in changed:
        plugin["provideClusterInfo"] = options.exec_provide_cluster_info
    variables, removed = _pairs(options.exec_env, "exec-env")
    if variables or removed:
        present = {item["name"]: item.get("value", "") for item in plugin.get("env") or ()} | variables
        plugin["env"] = [{"name": key, "value": value} for key, value in present.items() if key not in removed]
    entry["exec"] = plugin


def _pairs(texts: tuple[str, ...], flag: str) -> tuple[dict[str, str], set[str]]:
    """Return the pairs of `KEY=VALUE`, and the keys of `KEY-`, which are removed."""
    pairs, removed = {}, set()
    for text in texts:
        key, equals, value = text.partition("=")
        if equals and key:
            pairs[key] = value
        elif text.endswith("-") and not equals:
            removed.add(text[:-1])
        else:
            raise KubectlError(f"invalid {flag} format: {text}")
    return pairs, removed


def _set_file(entry: Entry, key: str, path: str, *, is_embedded: bool) -> None:
    if is_embedded:
        entry |= {f"{key}-data": base64.b64encode(Path(path).read_bytes()).decode(), key: ""}
    else:
        entry |= {key: os.path.abspath(path) if path else "", f"{key}-data": ""}


def _check_file(flag: str, path: str) -> None:
    try:
        os.stat(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KubectlError(f"could not stat {flag} file {path}: stat {path}: {reason}") from None
