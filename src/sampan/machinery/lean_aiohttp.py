"""Imports aiohttp without the system's certificates, which it would read while it is imported: 40 ms.

Nothing here relies on aiohttp's own idea of whom to trust: clients are given an ssl context that says so. Import this
before aiohttp.
"""

import os

_PLACES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_kept = {name: os.environ.get(name) for name in _PLACES}
os.environ.update(dict.fromkeys(_PLACES, os.devnull))
try:
    import aiohttp
finally:
    for _name, _value in _kept.items():
        if _value is None:
            del os.environ[_name]
        else:
            os.environ[_name] = _value

__all__ = ["aiohttp"]
