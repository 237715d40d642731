"""Conversion between the types of the storage contract and the messages of etcd. Pure."""

from typing import Any

from sampan.storage.backend import KeyValue, StoreEvent
from sampan.storage.etcd.proto import load

_pb = load()
_Range, _Txn, _Op, _Compare = _pb.RangeRequest, _pb.TxnRequest, _pb.RequestOp, _pb.Compare
_Put, _Delete = _pb.PutRequest, _pb.DeleteRangeRequest

ALL_KEYS = (b"\0", b"\0")
"""The range of all keys in etcd's notation."""


def end_of_prefix(prefix: bytes) -> bytes:
    """Return the first key after all keys that start with `prefix`; a NUL byte (etcd's "no end") if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else b"\0"


class KeyCodec:
    """Converts keys: those of the backend are text without `prefix`, those of etcd are bytes.

    Bytes that are not UTF-8 (from other users of the same etcd) survive the conversion in both directions.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = self._bytes(prefix)
        self._skip = len(self._prefix)

    @property
    def has_prefix(self) -> bool:
        return bool(self._prefix)

    def owns(self, key: bytes) -> bool:
        return key.startswith(self._prefix)

    @staticmethod
    def _bytes(key: str) -> bytes:
        return key.encode("utf-8", "surrogateescape")

    def encode(self, key: str) -> bytes:
        return self._prefix + self._bytes(key)

    def decode(self, key: bytes) -> str:
        return key[self._skip :].decode("utf-8", "surrogateescape")

    def bounds(self, prefix: str, start: str = "") -> tuple[bytes, bytes]:
        """Return the first key and the end of the range of keys that start with `prefix`, from `start` on."""
        first, end = self.encode(prefix), end_of_prefix(self.encode(prefix))
        return max(first, self.encode(start)) or b"\0", end

    def entry(self, kv: Any) -> KeyValue:
        return KeyValue(self.decode(kv.key), kv.value, kv.mod_revision, kv.create_revision)

    def event(self, event: Any) -> StoreEvent:
        kv = event.kv
        if event.type:
            return StoreEvent(kv.mod_revision, self.decode(kv.key), None, 0)
        return StoreEvent(kv.mod_revision, self.decode(kv.key), kv.value, kv.create_revision)


def get(key: bytes, revision: int = 0) -> Any:
    return _Range(key=key, revision=revision)


def put(key: bytes, value: bytes, *, expected: int | None, lease: int) -> Any:
    return _swap(key, _Op(request_put=_Put(key=key, value=value, lease=lease)), expected)


def delete(key: bytes, *, expected: int | None) -> Any:
    return _swap(key, _Op(request_delete_range=_Delete(key=key)), expected)


def _swap(key: bytes, write: Any, expected: int | None) -> Any:
    if expected is None:
        return _Txn(success=(write,))
    unchanged = _Compare(target=_Compare.MOD, key=key, mod_revision=expected)
    return _Txn(compare=(unchanged,), success=(write,), failure=(_Op(request_range=_Range(key=key)),))
