"""Encryption at rest: values are encrypted before they are stored (compare `k8s.io/apiserver/pkg/storage/value`).

`encryption_configuration` reads an EncryptionConfiguration, `backend` wraps a whole store and encrypts and decrypts its
values, `ciphers` uses the libraries `cryptography` and PyNaCl. Nothing here logs a value or a key.
"""

from sampan.storage.encryption.backend import ENCRYPTED, EncryptingBackend, ValueTransformer
from sampan.storage.encryption.encryption_configuration import (
    ChangingEncryption,
    EncryptionConfigError,
    EncryptionRules,
    read_encryption_config,
)

__all__ = [
    "ENCRYPTED",
    "ChangingEncryption",
    "EncryptingBackend",
    "EncryptionConfigError",
    "EncryptionRules",
    "ValueTransformer",
]
__all__ += ["read_encryption_config"]
