"""The etcd store on a real etcd server."""

import itertools
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("sampan.testing.backend_conformance")

from sampan.storage.etcd import EtcdBackend  # noqa: E402
from sampan.testing.backend_conformance import CHECKS, Check, Subject, run  # noqa: E402
from tests.storage.etcd_server import Member, one_member  # noqa: E402

_roots = itertools.count()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    with one_member(tmp_path_factory.mktemp("etcd")) as member:
        yield member


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check, etcd: Member) -> None:
    subject = Subject(open=lambda: EtcdBackend(endpoints=[etcd.client_url]), root=f"/registry{next(_roots)}/")
    run(check, subject)
