"""The encrypting store: the conformance suite, no plain text in the file, key rotation."""

import asyncio
from pathlib import Path

import pytest

pytest.register_assert_rewrite("sampan.testing.backend_conformance")

from sampan.host.clock import VirtualClock  # noqa: E402
from sampan.storage.encryption import EncryptingBackend, ValueTransformer  # noqa: E402
from sampan.storage.encryption.backend import IDENTITY, key  # noqa: E402
from sampan.storage.encryption.ciphers import CIPHERS  # noqa: E402
from sampan.storage.memory import MemoryBackend  # noqa: E402
from sampan.storage.sqlite import SqliteBackend  # noqa: E402
from sampan.testing.backend_conformance import CHECKS, BackendSubject, Check, run  # noqa: E402


def values(provider: str, *names: str) -> ValueTransformer:
    """Return keys of a provider, each derived from its name."""
    make, _ = CIPHERS[provider]
    return ValueTransformer([key(provider, name, make(name.encode().ljust(32, b"."))) for name in names])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check) -> None:
    clock = VirtualClock()
    subject = BackendSubject(
        open=lambda: EncryptingBackend(inner=MemoryBackend(clock=clock), values=values("aesgcm", "one")),
        advance=clock.advance,
        is_local=True,
    )
    run(check, subject)


@pytest.mark.parametrize("provider", CIPHERS)
def test_file_contains_no_plain_text(provider: str, tmp_path: Path) -> None:
    async def work() -> None:
        inner = SqliteBackend(path=tmp_path / "store.db", clock=VirtualClock())
        async with EncryptingBackend(inner=inner, values=values(provider, "one")) as backend:
            await backend.put("/registry/secrets/a", b"hidden-treasure")
            entry, _ = await backend.get("/registry/secrets/a")
            assert entry is not None
            assert entry.value == b"hidden-treasure"
            await backend.put("/registry/secrets/b", b"hidden-treasure")

    asyncio.run(work())
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"hidden-treasure" not in stored
    assert b"k8s:enc:%b:v1:one:" % provider.encode() in stored


@pytest.mark.parametrize("provider", CIPHERS)
def test_key_rotation(provider: str) -> None:
    """The first key encrypts, all keys decrypt; values that another key encrypted are stale."""
    old, both, new = values(provider, "old"), values(provider, "new", "old"), values(provider, "new")
    written = old.seal("/k", b"x")
    assert both.open("/k", written) == b"x"
    assert both.is_stale("/k", written)
    again = both.seal("/k", b"x")
    assert not both.is_stale("/k", again)
    assert new.open("/k", again) == b"x"
    assert new.open("/k", written) == written, "a value of a removed key cannot be decrypted"


def test_all_keys_with_the_same_name_are_tried() -> None:
    make, _ = CIPHERS["aesgcm"]
    written = ValueTransformer([key("aesgcm", "k", make(b"a" * 32))]).seal("/k", b"x")
    either = ValueTransformer([key("aesgcm", "k", make(b"b" * 32)), key("aesgcm", "k", make(b"a" * 32))])
    assert either.open("/k", written) == b"x"
    assert either.is_stale("/k", written)


def test_identity_provider_reads_and_writes_plain_values() -> None:
    """Identity as the last provider reads values from before encryption; as the first it ends encryption."""
    enabling = ValueTransformer([*values("aesgcm", "one").keys, IDENTITY])
    assert enabling.open("/k", b"{}") == b"{}"
    assert enabling.is_stale("/k", b"{}")
    disabling = ValueTransformer([IDENTITY, *values("aesgcm", "one").keys])
    assert disabling.seal("/k", b"{}") == b"{}"
    assert disabling.open("/k", values("aesgcm", "one").seal("/k", b"x")) == b"x"


@pytest.mark.parametrize(("provider", "is_bound"), {"aesgcm": True, "aescbc": False, "secretbox": False}.items())
def test_only_aesgcm_binds_a_value_to_its_storage_key(provider: str, is_bound: bool) -> None:
    """A value under another key is not decrypted. The other formats have no room for the key in Kubernetes either."""
    keys = values(provider, "one")
    written = keys.seal("/registry/secrets/a/own", b"x")
    assert keys.open("/registry/secrets/a/own", written) == b"x"
    assert keys.open("/registry/secrets/b/other", written) == (written if is_bound else b"x")
