"""Credentials from exec plugins and OpenID Connect providers that a kubeconfig names
(`client-go/plugin/pkg/client/auth`).

A source fetches its credentials when they are first needed and keeps them until they expire.
"""

from __future__ import annotations

import base64
import json
import os
import posixpath
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXPIRY_MARGIN_S = 10.0
_TIMEOUT_S = 30
_NOT_INSTALLED = """It looks like you are trying to use a client-go credential plugin that is not installed.

To learn more about this feature, consult the documentation available at:
      https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"""


class CredentialError(ValueError):
    """Credentials cannot be fetched; the message says from where and why."""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    token: str = field(default="", repr=False)
    client_cert_pem: bytes = b""
    client_key_pem: bytes = field(default=b"", repr=False)
    expires_at: float = float("inf")
    """When the credentials expire, in seconds since the epoch."""


class CredentialSource(Protocol):
    def credentials(self) -> ClientCredentials:
        """Return credentials that have not expired. Raise CredentialError if there are none."""

    def restrict(self, policy: PluginPolicy) -> None:
        """From now on, run only the exec plugins that a policy allows."""


@dataclass(frozen=True, slots=True)
class PluginPolicy:
    """Which exec plugins may run: `AllowAll` (also the empty name), `DenyAll`, or the plugins of an `Allowlist`, by
    name or path. Raise CredentialError if the policy is unknown or its allowlist is missing, superfluous or invalid."""

    name: str = ""
    allowlist: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.name in ("", "AllowAll", "DenyAll"):
            if self.allowlist is not None:
                text = f'plugin policy is "{self.name}" but allowlist is non-nil'
                raise CredentialError(f"misconfigured credential plugin allowlist: {text}")
        elif self.name != "Allowlist":
            raise CredentialError(f'unknown plugin policy: "{self.name}"')
        else:
            _check_allowlist(self.allowlist)

    def check(self, command: str) -> None:
        """Raise CredentialError unless the command of a plugin may run."""
        if self.name == "DenyAll":
            raise CredentialError(f'plugin "{command}" not allowed: policy set to "DenyAll"')
        if self.name != "Allowlist":
            return
        allowed, path = self.allowlist or (), shutil.which(command)
        if command in allowed or path in allowed:
            return
        if path is None:
            reason = f'exec: "{command}": executable file not found in $PATH'
            text = f'plugin path "{command}" cannot be resolved for credential plugin allowlist check'
            raise CredentialError(f"{text}: {reason}")
        if not any(shutil.which(entry) == path for entry in allowed):
            raise CredentialError(f'plugin path "{path}" is not permitted by the credential plugin allowlist')


def _check_allowlist(allowlist: tuple[str, ...] | None) -> None:
    if not allowlist:
        reason = "unspecified" if allowlist is None else 'empty; use "DenyAll" policy instead'
        raise CredentialError(f'credential plugin policy set to "Allowlist", but allowlist is {reason}')
    for index, command in enumerate(allowlist, 1):
        if not command:
            raise CredentialError(f"misconfigured credential plugin allowlist: empty allowlist entry #{index}")
        cleaned = posixpath.normpath(command)
        if cleaned != command:
            raise CredentialError(f'non-normalized file path: "{command}" vs "{cleaned}"')


@dataclass(slots=True)
class ExecCredentialSource:
    """Runs the command of an `exec` entry; `cluster` is passed to it if the entry asks for that."""

    entry: Mapping[str, Any]
    cluster: Mapping[str, Any]
    policy: PluginPolicy = PluginPolicy()
    _credentials: ClientCredentials | None = None

    def __post_init__(self) -> None:
        if not self.entry.get("command"):
            raise CredentialError("command must be specified to use exec authentication plugin")
        version = str(self.entry.get("apiVersion") or "")
        if version not in _API_VERSIONS:
            raise CredentialError(f'exec plugin: invalid apiVersion "{version}"')

    def credentials(self) -> ClientCredentials:
        if self._credentials is None or self._credentials.expires_at <= time.time():
            self._credentials = self._fetch()
        return self._credentials

    def restrict(self, policy: PluginPolicy) -> None:
        self.policy = policy

    def _fetch(self) -> ClientCredentials:
        command = str(self.entry["command"])
        try:
            self.policy.check(posixpath.normpath(command))
        except CredentialError as error:
            raise CredentialError(f"getting credentials: {error}") from None
        path = shutil.which(command)
        if path is None:
            raise CredentialError(f"getting credentials: exec: {self._missing_text(command)}")
        is_interactive = self._is_interactive()
        try:
            process = subprocess.run(
                [path, *map(str, self.entry.get("args") or ())],
                env=self._environment(is_interactive),
                stdin=None if is_interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
            )
        except OSError as error:
            raise CredentialError(f"getting credentials: exec: {error.strerror or error}") from None
        if process.returncode:
            reason = f"executable {command} failed with exit code {process.returncode}"
            raise CredentialError(f"getting credentials: exec: {reason}")
        return self._decode_output(process.stdout)

    def _missing_text(self, command: str) -> str:
        if "/" in command:
            return f"fork/exec {command}: no such file or directory"
        hint = str(self.entry.get("installHint") or "")
        return f"executable {command} not found\n\n{_NOT_INSTALLED}" + (f"\n\n{hint}" if hint else "")

    def _is_interactive(self) -> bool:
        mode = self.entry.get("interactiveMode") or "IfAvailable"
        if mode not in ("Never", "IfAvailable", "Always"):
            raise CredentialError(f'unknown interactiveMode: "{mode}"')
        has_terminal = sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not has_terminal:
            raise CredentialError(
                "getting credentials: exec plugin cannot support interactive mode: standard input is not a terminal"
            )
        return bool(mode != "Never" and has_terminal)

    def _environment(self, is_interactive: bool) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": is_interactive}
        if self.entry.get("provideClusterInfo"):
            spec["cluster"] = {key: part for key, part in self.cluster.items() if part}
        info = {"kind": "ExecCredential", "apiVersion": self.entry["apiVersion"], "spec": spec}
        own = {str(item.get("name", "")): str(item.get("value", "")) for item in self.entry.get("env") or ()}
        return {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)}

    def _decode_output(self, output: bytes) -> ClientCredentials:
        try:
            value = json.loads(output)
        except (ValueError, RecursionError):
            value = ""  # kubectl reads the output as YAML, in which text that is not JSON is a string
        if not isinstance(value, dict):
            raise CredentialError(f"getting credentials: decoding stdout: {kind_error(value)}")
        version = value.get("apiVersion")
        if version != self.entry["apiVersion"]:
            raise CredentialError(
                f"getting credentials: exec plugin is configured to use API version {self.entry['apiVersion']}, "
                f"plugin returned version {version}"
            )
        status = value.get("status")
        if not isinstance(status, dict):
            raise CredentialError("getting credentials: exec plugin didn't return a status field")
        token = str(status.get("token") or "")
        cert, key = str(status.get("clientCertificateData") or ""), str(status.get("clientKeyData") or "")
        if not (token or cert or key):
            raise CredentialError("getting credentials: exec plugin didn't return a token or cert/key pair")
        if bool(cert) != bool(key):
            raise CredentialError("getting credentials: exec plugin returned only certificate or key, not both")
        return ClientCredentials(token, cert.encode(), key.encode(), _time(status.get("expirationTimestamp")))


def kind_error(value: Any) -> str:
    """Return client-go's error message for a document that is not an object."""
    names = {bool: "bool", int: "number", float: "number", list: "array", str: "string"}
    fields = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
    reason = f"json: cannot unmarshal {names.get(type(value), 'value')} into Go value of type {fields}"
    return f"couldn't get version/kind; json parse error: {reason}"


def _time(text: str | None) -> float:
    if not text:
        return float("inf")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise CredentialError(f"getting credentials: decoding stdout: expirationTimestamp {text!r}") from None


@dataclass(slots=True)
class OidcCredentialSource:
    """Uses the ID token of an `oidc` auth provider, and refreshes it when it expires. `persist` stores new tokens."""

    config: dict[str, str]
    persist: Callable[[dict[str, str]], None]

    def __post_init__(self) -> None:
        for key in ("idp-issuer-url", "client-id"):
            if not self.config.get(key):
                raise CredentialError(f"Must provide {key}")

    def restrict(self, policy: PluginPolicy) -> None:
        """Do nothing: an OpenID Connect provider is no program, so a policy for exec plugins does not apply."""

    def credentials(self) -> ClientCredentials:
        token = self.config.get("id-token", "")
        if not token or _token_expiry(token) - _EXPIRY_MARGIN_S <= time.time():
            self._refresh()
            token = self.config["id-token"]
        return ClientCredentials(token, expires_at=_token_expiry(token))

    def _refresh(self) -> None:
        if not self.config.get("refresh-token"):
            raise CredentialError("No valid id-token, and cannot refresh without refresh-token")
        issuer = self.config["idp-issuer-url"].rstrip("/")
        endpoint = self._request(f"{issuer}/.well-known/openid-configuration").get("token_endpoint")
        if not endpoint:
            raise CredentialError("oidc: discovery object doesn't contain a token_endpoint")
        response = self._request(
            str(endpoint),
            {
                "grant_type": "refresh_token",
                "refresh_token": self.config["refresh-token"],
                "client_id": self.config["client-id"],
                "client_secret": self.config.get("client-secret", ""),
            },
        )
        if not response.get("id_token"):
            raise CredentialError(
                'token response did not contain an id_token, either the scope "openid" wasn\'t requested upon login, '
                "or the provider doesn't support id_tokens as part of the refresh response"
            )
        self.config["id-token"] = str(response["id_token"])
        self.config["refresh-token"] = str(response.get("refresh_token") or self.config["refresh-token"])
        self.persist(self.config)

    def _request(self, url: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
        import http.client
        import ssl
        import urllib.request
        from urllib.parse import urlencode

        context = None
        if url.startswith("https:"):
            data = self.config.get("idp-certificate-authority-data", "")
            pem = base64.b64decode(data).decode() if data else None
            context = ssl.create_default_context(
                cafile=self.config.get("idp-certificate-authority") or None, cadata=pem
            )
        elif not url.startswith("http:"):
            raise CredentialError(f"oidc: unsupported URL {url}")
        body = urlencode({key: value for key, value in form.items() if value}).encode() if form else None
        try:
            with urllib.request.urlopen(url, body, timeout=_TIMEOUT_S, context=context) as response:
                value = json.loads(response.read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise CredentialError(f"failed to refresh token: {url}: {error}") from None
        if not isinstance(value, dict):
            raise CredentialError(f"oidc: the response of {url} is not an object")
        return value


def _token_expiry(token: str) -> float:
    parts = token.split(".")
    if len(parts) != 3:
        raise CredentialError("ID Token is not a valid JWT")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError) as error:
        raise CredentialError(f"parsing claims: {error}") from None
