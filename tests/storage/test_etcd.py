"""The etcd store on a real etcd server."""

import asyncio
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

pytest.register_assert_rewrite("sampan.testing.backend_conformance")

from sampan.storage.backend import StorageError, Unavailable  # noqa: E402
from sampan.storage.etcd import EtcdBackend, EtcdTimeouts  # noqa: E402
from sampan.testing.backend_conformance import CHECKS, BackendSubject, Check, run  # noqa: E402
from sampan.testing.backend_conformance.history import CHECKS as HISTORY  # noqa: E402
from sampan.testing.backend_conformance.watches import CHECKS as WATCHES  # noqa: E402
from tests.ports import free_ports  # noqa: E402
from tests.storage.etcd_certificates import Authority  # noqa: E402
from tests.storage.etcd_server import NO_ETCD, Member, find, running_member  # noqa: E402

pytestmark = pytest.mark.skipif(find("etcd") is None, reason=NO_ETCD)

SHORT = EtcdTimeouts(connect_s=1, request_s=2)
"""Timeouts for requests that cannot succeed."""

_roots = itertools.count()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    with running_member(tmp_path_factory.mktemp("etcd")) as member:
        yield member


async def _do_not_advance(seconds: float) -> None:
    """Do nothing: the clock of etcd is real, and the checks wait for the events."""


def _subject(etcd: Member, **options: Any) -> BackendSubject:
    def open_backend() -> EtcdBackend:
        return EtcdBackend(endpoints=[etcd.client_url], **options)

    return BackendSubject(open=open_backend, root=f"/registry{next(_roots)}/", advance=_do_not_advance)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check, etcd: Member) -> None:
    run(check, _subject(etcd))


@pytest.mark.parametrize("check", [*HISTORY, *WATCHES], ids=lambda check: check.__name__)
def test_conformance_with_a_key_prefix(check: Check, etcd: Member) -> None:
    """The same etcd has keys of other clients outside of the prefix."""
    run(check, _subject(etcd, prefix="/tenant"))


def test_etcd_backend_runs_on_uvloop(etcd: Member) -> None:
    async def main() -> None:
        async with _subject(etcd).open() as backend:
            start = await backend.current_revision()
            async with backend.watch("/registry/uvloop/", after=start) as watch:
                revision = await backend.put("/registry/uvloop/a", b"x", expected=0)
                assert [event.revision for event in (await anext(aiter(watch))).events] == [revision]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def test_backends_with_different_prefixes_are_isolated(etcd: Member) -> None:
    async with (
        EtcdBackend(endpoints=[etcd.client_url], prefix="/a") as first,
        EtcdBackend(endpoints=[etcd.client_url], prefix="/b") as second,
        EtcdBackend(endpoints=[etcd.client_url]) as whole,
    ):
        await first.put("/registry/x", b"1", expected=0)
        await second.put("/registry/x", b"2", expected=0)
        assert [entry.value for entry in (await first.range("/registry/")).entries] == [b"1"]
        assert [entry.value for entry in (await second.range("")).entries] == [b"2"]
        entry, _ = await whole.get("/a/registry/x")
        assert entry is not None
        assert entry.value == b"1"


def test_keys_with_the_same_ttl_share_a_lease(etcd: Member) -> None:
    async def main() -> int:
        async with EtcdBackend(endpoints=[etcd.client_url]) as backend:
            await asyncio.gather(*(backend.put(f"/registry/events/{i}", b"x", ttl_s=3600) for i in range(300)))
        return etcd.metric("etcd_debugging_lease_granted_total")

    before = etcd.metric("etcd_debugging_lease_granted_total")
    assert asyncio.run(main()) - before == 1


def test_concurrent_callers_of_current_revision_share_requests(etcd: Member) -> None:
    async def main() -> int:
        async with EtcdBackend(endpoints=[etcd.client_url]) as backend:
            before = await asyncio.to_thread(etcd.metric, "etcd_mvcc_range_total")
            revisions = await asyncio.gather(*(backend.current_revision() for _ in range(100)))
            assert len(set(revisions)) == 1
            return await asyncio.to_thread(etcd.metric, "etcd_mvcc_range_total") - before

    assert 1 <= asyncio.run(main()) <= 2


async def test_a_value_that_is_too_large_is_refused(etcd: Member) -> None:
    async with EtcdBackend(endpoints=[etcd.client_url]) as backend:
        for size in (1_600_000, 5_000_000):
            with pytest.raises(StorageError, match=r"larger than max|too large") as caught:
                await backend.put("/registry/large", bytes(size))
            assert not isinstance(caught.value, Unavailable)
        assert (await backend.get("/registry/large"))[0] is None


def test_full_etcd_raises_unavailable_and_keeps_acknowledged_writes(tmp_path: Path) -> None:
    """Near the quota, etcd may carry out a write that it has rejected. Such writes count as written."""

    async def main(url: str) -> None:
        async with EtcdBackend(endpoints=[url]) as backend:
            refused: list[Unavailable] = []
            written: list[int] = []
            for wave in range(20):
                writes = [backend.put(f"/registry/{wave}-{i}", bytes(500_000), expected=0) for i in range(5)]
                outcomes = await asyncio.gather(*writes, return_exceptions=True)
                refused += [outcome for outcome in outcomes if isinstance(outcome, Unavailable)]
                written += [outcome for outcome in outcomes if isinstance(outcome, int)]
                assert len(refused) + len(written) == 5 * (wave + 1)
            assert refused
            with pytest.raises(Unavailable, match="etcd is full"):
                await backend.put("/registry/lease", b"x", ttl_s=60)
            for error in refused:
                assert "space exceeded" in str(error)
                assert not error.may_have_happened
            assert sorted(entry.revision for entry in (await backend.range("/registry/")).entries) == sorted(written)

    with running_member(tmp_path, flags=["--unsafe-no-fsync", "--quota-backend-bytes=8000000"]) as member:
        asyncio.run(main(member.client_url))


async def _put(url: str, **options: Any) -> int:
    async with EtcdBackend(endpoints=[url], **options) as backend:
        return await backend.put("/registry/a", b"x")


def test_tls_requires_trusted_certificates(tmp_path: Path) -> None:
    authority, other_authority = Authority(tmp_path, "authority"), Authority(tmp_path, "other-authority")
    server_cert, server_key = authority.issue("server")
    cert, key = authority.issue("client")
    untrusted_cert, untrusted_key = other_authority.issue("untrusted")
    flags = [
        "--unsafe-no-fsync",
        f"--cert-file={server_cert}",
        f"--key-file={server_key}",
        f"--trusted-ca-file={authority.file}",
        "--client-cert-auth",
    ]
    with running_member(tmp_path, flags=flags, scheme="https") as member:
        url = member.client_url
        assert asyncio.run(_put(url, ca=authority.file, cert=cert, key=key)) > 1
        rejected = {
            "server with an untrusted certificate": _put(
                url, ca=other_authority.file, cert=cert, key=key, timeouts=SHORT
            ),
            "client without a certificate": _put(url, ca=authority.file, timeouts=SHORT),
            "client with an untrusted certificate": _put(
                url, ca=authority.file, cert=untrusted_cert, key=untrusted_key, timeouts=SHORT
            ),
            "client without TLS": _put(url.replace("https", "http"), timeouts=SHORT),
        }

        async def put_all() -> list[int | BaseException]:
            return await asyncio.gather(*rejected.values(), return_exceptions=True)

        errors = dict(zip(rejected, asyncio.run(put_all()), strict=True))
        assert {name: type(error) for name, error in errors.items()} == dict.fromkeys(rejected, Unavailable)
        assert re.search(r"(?i)certificate|handshake|ssl", str(errors["server with an untrusted certificate"]))


def test_unreachable_etcd_raises_unavailable() -> None:
    [port] = free_ports(1)
    with pytest.raises(Unavailable, match="refused") as caught:
        asyncio.run(_put(f"http://127.0.0.1:{port}", timeouts=SHORT))
    assert not caught.value.may_have_happened


def test_missing_certificate_file_raises_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.crt"):
        asyncio.run(_put("https://127.0.0.1:1", ca=tmp_path / "nothing.crt"))


def test_empty_list_of_endpoints_raises_value_error() -> None:
    with pytest.raises(ValueError, match="no etcd endpoint"):
        EtcdBackend(endpoints=[])


def _etcdctl(member: Member, *arguments: str) -> str:
    program = find("etcdctl")
    if program is None:
        pytest.skip("etcdctl is not installed")
    command = [program, f"--endpoints={member.client_url}", *arguments]
    environment = {**os.environ, "ETCDCTL_API": "3"}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


async def test_keys_and_values_are_interchangeable_with_etcdctl(etcd: Member) -> None:
    key, value = "/registry/configmaps/default/other-client", '{"kind":"ConfigMap","apiVersion":"v1"}'

    async with EtcdBackend(endpoints=[etcd.client_url]) as backend:
        await backend.put(key, value.encode(), expected=0)
        assert _etcdctl(etcd, "get", key) == f"{key}\n{value}\n"
        start = await backend.current_revision()
        async with backend.watch("/registry/configmaps/", after=start) as watch:
            await asyncio.to_thread(_etcdctl, etcd, "put", key, "from etcdctl")
            [event] = (await anext(aiter(watch))).events
            assert (event.key, event.value) == (key, b"from etcdctl")


def test_etcd_with_authentication_denies_anonymous_clients(tmp_path: Path) -> None:
    with running_member(tmp_path) as member:
        for command in ("user add root:secret", "user grant-role root root", "auth enable"):
            _etcdctl(member, *command.split())
        with pytest.raises(StorageError, match="does not allow this") as caught:
            asyncio.run(_put(member.client_url))
        assert not isinstance(caught.value, Unavailable)


def test_grpc_is_loaded_only_with_the_etcd_store() -> None:
    code = "import sys, sampan.storage.backend, sampan.storage; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
