"""The flags that every command of kubectl takes: which server, which credentials, which namespace
(`genericclioptions.ConfigFlags`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import click

from sampan.kubectl.command_line.flag_parser import FILE_LEVELS, DeprecatedOption
from sampan.kubectl.command_line.flags import (
    OptionSet,
    bool_flag,
    duration_flag,
    int_flag,
    string_array_flag,
    string_flag,
)
from sampan.kubectl.errors import KubectlError

_GO_PROFILES = ("cpu", "heap", "goroutine", "threadcreate", "block", "mutex", "trace", "allocs")
_LOG_MESSAGE = "it has no effect: messages go to standard error"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ConnectionOptions:
    """The flags of all commands that talk to a cluster, also outside of `sampan kubectl`."""

    kubeconfig: str = string_flag("--kubeconfig", metavar="FILE", help="Path of the kubeconfig file.")
    context_name: str = string_flag("--context", metavar="NAME", help="Name of the kubeconfig context to use.")
    server: str = string_flag("-s", "--server", metavar="URL", help="Address and port of the Kubernetes API server.")
    token: str = string_flag("--token", metavar="TOKEN", help="Bearer token for authentication to the API server.")
    insecure: bool = bool_flag(
        "--insecure-skip-tls-verify",
        help="Do not verify the certificate of the API server. This makes connections insecure.",
    )
    cluster_name: str = string_flag("--name", metavar="NAME", help="Name of the running Sampan cluster to use.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GlobalOptions(ConnectionOptions):
    """The flags of all commands of kubectl. Every command makes this class, so that it has no method too many."""

    impersonated_user: str = string_flag("--as", metavar="USER", help="User to impersonate, also a service account.")
    impersonated_groups: tuple[str, ...] = string_array_flag(
        "--as-group", metavar="GROUP", help="Group to impersonate; repeatable."
    )
    impersonated_uid: str = string_flag("--as-uid", metavar="UID", help="UID to impersonate.")
    impersonated_extra: tuple[str, ...] = string_array_flag(
        "--as-user-extra", metavar="KEY=VALUE", help="Extra field of the user to impersonate; repeatable."
    )
    cache_dir: str = string_flag(
        "--cache-dir", metavar="DIR", help="Directory for cached API discovery. Default: ~/.kube/cache."
    )
    certificate_authority: str = string_flag(
        "--certificate-authority", metavar="FILE", help="Certificate of the authority that signed the server's."
    )
    client_certificate: str = string_flag("--client-certificate", metavar="FILE", help="Client certificate for TLS.")
    client_key: str = string_flag("--client-key", metavar="FILE", help="Key of the client certificate.")
    kubeconfig_cluster: str = string_flag("--cluster", metavar="NAME", help="Name of the kubeconfig cluster to use.")
    disable_compression: bool = bool_flag("--disable-compression", help="Do not accept compressed responses.")
    kuberc: str = string_flag("--kuberc", metavar="FILE", help="Path of the kuberc file with preferences.")
    log_flush_frequency_s: float = duration_flag(
        "--log-flush-frequency", default_s=5.0, metavar="TIME", help="Accepted; logs are not buffered."
    )
    match_server_version: bool = bool_flag(
        "--match-server-version", help="Fail unless the server's version is that of the client."
    )
    namespace: str = string_flag("-n", "--namespace", metavar="NAMESPACE", help="Namespace of the objects.")
    password: str = string_flag(
        "--password", metavar="TEXT", help="Password for basic authentication to the API server."
    )
    profile: str = string_flag(
        "--profile", default="none", metavar="NAME", help="Profile to capture; only none is supported."
    )
    profile_output: str = string_flag(
        "--profile-output", default="profile.pprof", metavar="FILE", help="Accepted; there is no profile."
    )
    proxy_url: str = string_flag("--proxy-url", metavar="URL", help="Proxy for requests to the API server.")
    request_timeout: str = string_flag(
        "--request-timeout",
        default="0",
        metavar="TIME",
        help="How long to wait for a response, for example 1s or 2m; 0 waits without limit.",
    )
    tls_server_name: str = string_flag(
        "--tls-server-name", metavar="NAME", help="Name that the server's certificate must have."
    )
    kubeconfig_user: str = string_flag("--user", metavar="NAME", help="Name of the kubeconfig user to use.")
    username: str = string_flag(
        "--username", metavar="NAME", help="User name for basic authentication to the API server."
    )
    verbosity: int = int_flag("-v", "--v", default=0, metavar="N", help="Verbosity of log messages.")
    vmodule: str = string_flag("--vmodule", type=FILE_LEVELS, metavar="PATTERN=N", help="Log levels of source files.")
    warnings_as_errors: bool = bool_flag("--warnings-as-errors", help="Exit with code 1 after a warning of the server.")


GLOBAL_OPTIONS = OptionSet(GlobalOptions)
GLOBAL_FLAGS = (
    *GLOBAL_OPTIONS.flags,
    *(
        DeprecatedOption((f"--{name}",), is_flag=True, expose_value=False, message=_LOG_MESSAGE)
        for name in (
            "alsologtostderr",
            "logtostderr",
            "one-output",
            "skip-headers",
            "skip-log-headers",
            "add-dir-header",
        )
    ),
    *(
        DeprecatedOption((f"--{name}",), expose_value=False, message=_LOG_MESSAGE)
        for name in ("log-dir", "log-file", "log-file-max-size", "log-backtrace-at", "stderrthreshold")
    ),
)
"""The flags of `GlobalOptions` and the hidden ones, which are accepted without a value that anything reads."""


def check_profile(name: str) -> None:
    """Raise KubectlError for the value of --profile: the profiles of kubectl are those of Go programs."""
    if name in _GO_PROFILES:
        raise KubectlError(f"--profile={name} is not supported: it profiles programs in Go")
    if name != "none":
        raise KubectlError(f"unknown profile '{name}'")


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of `ConnectionOptions` to a command outside of `sampan kubectl`, as parameters that are named like
    the fields."""
    flags = OptionSet(ConnectionOptions).flags
    for part, flag in reversed(list(zip(fields(ConnectionOptions), flags, strict=True))):
        add = click.option(
            part.name, *flag.opts, default=flag.default, is_flag=flag.is_flag, metavar=flag.metavar, help=flag.help
        )
        command = add(command)
    return command
