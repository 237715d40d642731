"""The ciphers: round trips, detection of damage, and compatibility of secretbox with NaCl."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.storage.encryption.ciphers import CIPHERS, CannotDecrypt, SecretBox

# The output of libsodium's crypto_secretbox for b"sampan " * 20, with these key and nonce.
_KEY, _NONCE = bytes(range(32)), bytes(range(24))
_BOX = bytes.fromhex(
    "70ff184198c91a7292bace9c0358c2b42d9e553fa6a48263da51ff5f06af39f63fd527b1ac565e8267c309b426a6cc91e2b5d5a624dd8563"
    "d7ad93f81716ca2d033209f283f6b26fcf7e4acd7b0fb786bded8f786b36ba8c7982e0bfea00e9ef86b2bcdbe17f4388f856be79435697cf"
    "ef7a77e732f233060f19b022e89e312850ad4fedb34cbe1afcaf6ae013e927daf6b96c821be8b2d250faecfa"
)


def test_secretbox_is_compatible_with_nacl() -> None:
    assert SecretBox(_KEY).open(_NONCE + _BOX, b"") == b"sampan " * 20


# The output of Sampan's former XSalsa20, which PyNaCl has replaced, for bytes(range(256)) * 3 with the key above.
_WRITTEN_BEFORE = bytes.fromhex(
    "97d7a631dd3b389fc6899cd7cf4ef0f1a051b82d6eeba9019f093a389fb07bcad85886a382e3018c0eb91f0d24d6791f36a1e801dd41cbec"
    "a5b4aa7d82ed2087a277614a5c655e7f37cd17249794f89a5773cca25d2ad13b06b2eb8d7fe4d5e9754988a4abc43d0f7232af09a9638042"
    "9582cf05f4631cad4ef8cfa7678d4b62e6dc5af06275b83359a8c778af28942ccf41d6bb1c0113fc0bb721eac7603d8dcdcaa51e403bf527"
    "9daf2ec673413b431c5030ba0c8af532ddd51b8fcb53b1834f14d9837749154f5588a57c314eaffb0a617c31b724471d9dbb9cf14a08c2c4"
    "6d9ec86549b0db364ee77587f78817bbee9d8010a35e68cf89d7f5422408112c3d14d9010c7ee8c45e8e7d488692bcee3bd9cf61c7782ed1"
    "6a6199289eaf8bdb6c767ed2a0e87a495fc7c7690a2f8c62a40dbdcb536bc75b23d233569be20ab2afc53c6fbc3e8062dea7c9d087ee1fcd"
    "8fd0ec3ac1491fbd194d24042efeaeee17343482c90c002a2592d5d413850d3beb5c996e1ab85afed06353f56e8cd7ce3176436bf34c8646"
    "8381338766fb42e1498138a1b366e551f2537edc2c7ac4ccb559559f98abc160a01402667976dee54ff3295946150357c3862727c7a7703d"
    "8dc58a4185411f820581869a26b0cd677ee09bc523d39e74a1ce0ad09274ef36d3f088503cf1114cd97b9d332a957fcf95aed69849d26b81"
    "6db61bb81e92beb99b396acd8875362b7c1e4362cb073f446a26fa89f51614d70616d3156f61d6a19004bdf0d231da8382e58becb46a1eb0"
    "55541890a931a5030f51fa055ff74adb1ec3f5a1ddea461952d3594d47274b30dc6109a90ffdc4f9615c4bb73542f15c0ef07590654f992f"
    "f22ad4bc6c6184fc9f2f7c7df3fc6c2a6e191b4c6d8ab63fcc173ebeda6a9cf477d6c7e8308675661007e2b2fd6ce89e2a8d6f9c0e0caf1f"
    "89cd15e1289a9d0e06641349aaa7609ed7afa852c3df607d701e28ba500827076f8b929c00a9c956e8d37e6cafd75e0c841e03572b8832fe"
    "532535224a39473f4ac8c1620cb6c307afd71feaf23277cc9b09fc0557a8be2ff29c6ca85bf4d084cfd7574edab659d9cec4bd9380fdf034"
    "ace67a96be0307078b617640dabaf7da507900feb06ef6c5"
)


def test_values_of_earlier_versions_can_be_decrypted() -> None:
    assert SecretBox(_KEY).open(_WRITTEN_BEFORE, b"/registry/secrets/a/b") == bytes(range(256)) * 3


@pytest.mark.parametrize("provider", CIPHERS)
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=3000))
def test_seal_and_open_round_trip(provider: str, data: bytes) -> None:
    make, sizes = CIPHERS[provider]
    for size in sizes:
        cipher = make(b"k" * size)
        assert cipher.open(cipher.seal(data, b"/a"), b"/a") == data


@pytest.mark.parametrize("provider", ["aesgcm", "secretbox"])
@pytest.mark.parametrize("at", [0, 25, -1])
def test_damaged_values_are_rejected(provider: str, at: int) -> None:
    cipher = CIPHERS[provider][0](b"k" * 32)
    sealed = bytearray(cipher.seal(b"some value", b"/a"))
    sealed[at] ^= 1
    with pytest.raises(CannotDecrypt):
        cipher.open(bytes(sealed), b"/a")


@pytest.mark.parametrize("provider", CIPHERS)
@pytest.mark.parametrize("size", [0, 5, 16, 20])
def test_short_values_are_rejected(provider: str, size: int) -> None:
    with pytest.raises(CannotDecrypt):
        CIPHERS[provider][0](b"k" * 32).open(b"x" * size, b"/a")


def test_equal_values_are_sealed_differently() -> None:
    for make, _ in CIPHERS.values():
        cipher = make(b"k" * 32)
        assert cipher.seal(b"value", b"/a") != cipher.seal(b"value", b"/a")
