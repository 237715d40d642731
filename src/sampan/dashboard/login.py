"""Log-in: the credentials in a request, their verification, and the limit on failed attempts."""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import re
from collections import OrderedDict, deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from sampan.api import addresses
from sampan.api.codec import json as json_codec
from sampan.api.codec import yaml as yaml_codec
from sampan.dashboard.sessions import OneTimeCodes, User
from sampan.host.clock import Clock
from sampan.host.worker_thread import WorkerThread
from sampan.machinery import errors
from sampan.machinery.client.transport import ConnectionFailed, Request
from sampan.machinery.client.user_api import UserApi, UserApiSource, UserCredentials

KUBECONFIG_CHARACTERS = 16 << 10
"""The longest kubeconfig, which is parsed before anything is known about its sender. One with a CA, a certificate and a
key has about 8 kB."""
_MAX_WAITING_KUBECONFIGS = 8
_TOKEN_LENGTH = 16 << 10
_FAILURES, _FAILURE_WINDOW_S = 10, 60.0
_ADDRESSES = 4096
_SHARED_ADDRESSES = frozenset(map(ipaddress.ip_address, ("127.0.0.1", "::1")))
_ANONYMOUS = "system:anonymous"
_REVIEW_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REVIEW = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
_DENIED_USER = re.compile(r'User "([^"]{1,256})" cannot')


class LoginRequest(msgspec.Struct):
    token: str = ""
    kubeconfig: str = ""
    code: str = ""
    cluster: str = ""
    """The name of the cluster to log in to; empty for the first cluster. A one-time code is valid for every cluster."""


class LoginAttempt(NamedTuple):
    source: str
    """The network for which a failure counts, or the hash of the credential."""
    started_at: float


class LoginLimiter:
    """Counts failed attempts by address. IPv6 clients usually have a whole /64 network, which counts as one. All users
    of the machine share 127.0.0.1 and ::1, for which attempts with the same credential count.

    An attempt counts as failed until it has succeeded, so that attempts at the same time are limited as well.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def start(self, address: str, credential: str) -> LoginAttempt:
        """Count an attempt. Raise TooManyRequests if there were too many failed ones from the same source."""
        source, now = _source(address, credential), self._clock.monotonic()
        failures = self._failures.setdefault(source, deque(maxlen=_FAILURES))
        self._failures.move_to_end(source)
        if len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)
        while failures and failures[0] <= now - _FAILURE_WINDOW_S:
            failures.popleft()
        if len(failures) >= _FAILURES:
            wait_s = int(failures[0] + _FAILURE_WINDOW_S - now) + 1
            raise errors.too_many_requests("Too many failed log-ins, please try again later.", retry_after_s=wait_s)
        failures.append(now)
        return LoginAttempt(source, now)

    def record_success(self, attempt: LoginAttempt) -> None:
        """Remove an attempt from the count, because it has not failed."""
        failures = self._failures.get(attempt.source)
        if failures is not None:
            with suppress(ValueError):
                failures.remove(attempt.started_at)


class Login:
    def __init__(self, *, clusters: Mapping[str, UserApiSource], codes: OneTimeCodes, clock: Clock) -> None:
        self._clusters, self._codes = clusters, codes
        self._limiter = LoginLimiter(clock=clock)
        self._kubeconfigs = KubeconfigReader()

    async def log_in(self, request: LoginRequest, address: str) -> tuple[User, Mapping[str, UserApi]]:
        """Return the user and an API for each cluster, by name. Raise Unauthorized for invalid credentials."""
        attempt = self._limiter.start(address, "\0".join((request.token, request.kubeconfig, request.code)))
        apis = await self._apis(request)
        user = await self._identify_or_close(apis)
        self._limiter.record_success(attempt)
        return user, apis

    async def _identify_or_close(self, apis: Mapping[str, UserApi]) -> User:
        try:
            return await identify(next(iter(apis.values())))
        except BaseException:
            for api in apis.values():
                await api.close()
            raise

    async def _apis(self, request: LoginRequest) -> Mapping[str, UserApi]:
        if request.code:
            apis = self._codes.redeem(request.code)
            if apis is None:
                raise errors.unauthorized("The code is not valid: it was used before, or it is older than a minute.")
            return apis
        if request.kubeconfig:
            credentials = await self._kubeconfigs.read_credentials(request.kubeconfig)
        else:
            credentials = UserCredentials(token=_check_token(request.token))
        name = request.cluster or next(iter(self._clusters))
        if name not in self._clusters:
            raise errors.bad_request(f"there is no cluster {name!r}")
        return {name: await self._clusters[name].open_with_credentials(credentials)}


async def identify(api: UserApi) -> User:
    """Return the user whom the API server recognizes by the credentials. Raise Unauthorized if they are invalid or name
    nobody."""
    request = Request(
        method="POST", path=_REVIEW_PATH, body=_REVIEW, headers={"Content-Type": "application/json", "Accept": "*/*"}
    )
    try:
        status = json_codec.read_any((await api.send(request)).body())["status"]["userInfo"]
    except errors.Forbidden as error:  # default roles allow the review, but can be changed
        match = _DENIED_USER.search(error.message)
        status = {"username": match.group(1) if match is not None else _ANONYMOUS}
    except ConnectionFailed as error:
        raise errors.service_unavailable(f"the cluster cannot be reached: {error}") from None
    except (json_codec.DecodeError, KeyError, TypeError):
        raise errors.service_unavailable("the cluster does not tell who the user is") from None
    username = str(status.get("username") or "")
    if not username or username == _ANONYMOUS:
        raise errors.unauthorized()
    return User(username, tuple(map(str, status.get("groups") or ())))


class KubeconfigReader:
    """Reads kubeconfigs one after the other, in a thread: everybody may send them."""

    def __init__(self) -> None:
        self._worker = WorkerThread("sampan-kubeconfig")
        self._waiting = 0

    async def read_credentials(self, text: str) -> UserCredentials:
        if len(text) > KUBECONFIG_CHARACTERS:
            raise errors.bad_request(
                f"the kubeconfig has more than {KUBECONFIG_CHARACTERS} characters; "
                "`kubectl config view --minify --flatten` leaves out other contexts"
            )
        if self._waiting >= _MAX_WAITING_KUBECONFIGS:
            raise errors.too_many_requests("Too many log-ins, please try again later.", retry_after_s=1)
        self._waiting += 1
        try:
            return await self._worker.run(kubeconfig_credentials, text)
        finally:
            self._waiting -= 1


def kubeconfig_credentials(text: str) -> UserCredentials:
    """Return the credentials of the current context of a kubeconfig. Only those in the text itself count: a file or a
    program that it names would be one of the server's machine, and its server address is ignored."""
    try:
        content = yaml_codec.decode(text.encode("utf-8", "replace")).value
    except ValueError:
        raise errors.bad_request("the kubeconfig is not valid YAML") from None
    if not isinstance(content, dict):
        raise errors.bad_request("the text is not a kubeconfig")
    contexts, users = _entries(content, "contexts", "context"), _entries(content, "users", "user")
    context = contexts.get(str(content.get("current-context") or ""))
    user = users.get(str((context or {}).get("user") or "")) if context is not None else None
    if user is None and len(users) == 1:
        user = next(iter(users.values()))
    if user is None:
        raise errors.bad_request("the kubeconfig has no user for its current context")
    if user.get("token"):
        return UserCredentials(token=_check_token(str(user["token"])))
    if user.get("username"):
        return UserCredentials(username=str(user["username"]), password=str(user.get("password") or ""))
    certificate, key = _pem(user, "client-certificate-data"), _pem(user, "client-key-data")
    if not certificate or not key:
        raise errors.bad_request(
            "the kubeconfig must contain a token, or a client certificate with its key, in the text itself"
        )
    return UserCredentials(client_cert_pem=certificate, client_key_pem=key)


def _entries(content: Mapping[str, Any], section: str, inner: str) -> dict[str, Mapping[str, Any]]:
    items = content.get(section)
    if not isinstance(items, list):
        return {}
    return {
        str(item.get("name") or ""): item[inner]
        for item in items
        if isinstance(item, dict) and isinstance(item.get(inner), dict)
    }


def _pem(user: Mapping[str, Any], key: str) -> bytes:
    try:
        return base64.b64decode(str(user.get(key) or ""), validate=True)
    except (binascii.Error, ValueError):
        raise errors.bad_request(f"the kubeconfig's {key} is not base64") from None


def _check_token(token: str) -> str:
    token = token.strip()
    if not token or len(token) > _TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise errors.unauthorized()
    return token


def _source(address: str, credential: str) -> str:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if addresses.unmap_address(parsed) in _SHARED_ADDRESSES:
        return hashlib.sha256(credential.encode("utf-8", "replace")).hexdigest()
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network(f"{parsed}/64", strict=False))
    return str(parsed)
