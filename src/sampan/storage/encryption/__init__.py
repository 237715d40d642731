"""Encryption at rest: values are encrypted on their way into a store and decrypted on their way out.

`config` reads an EncryptionConfiguration, `values` turns one value into another, `backend` does so for a whole store,
`ciphers` are those of the libraries `cryptography` and PyNaCl. Nothing here logs a value or a key.
"""

from sampan.storage.encryption.backend import EncryptingBackend
from sampan.storage.encryption.config import (
    ChangingEncryption,
    Encryption,
    EncryptionConfigError,
    read_encryption_config,
)
from sampan.storage.encryption.values import ENCRYPTED, Values

__all__ = ["ENCRYPTED", "ChangingEncryption", "EncryptingBackend", "Encryption", "EncryptionConfigError", "Values"]
__all__ += ["read_encryption_config"]
