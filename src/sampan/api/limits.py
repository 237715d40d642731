"""Every bound on the size of input from users, nodes and images, in one place.

A bound belongs here when somebody outside the cluster's own code decides how large a thing becomes: a request body, a
decoded document, a stored object, a warning, an image's header. Limits on connections and times of the HTTP server
are in `sampan.apiserver.http.limits`, because flags set them. Values are those of the real components where they have
one.
"""

from typing import Final

# -- request bodies and decoding -------------------------------------------------------------------------------------

REQUEST_BODY_BYTES: Final = 3 << 20
"""The largest request body. The real API server refuses more than 3 MiB with 413 Request Entity Too Large."""

# -- stored objects --------------------------------------------------------------------------------------------------

# -- responses, warnings and audit -----------------------------------------------------------------------------------

# -- expressions and patterns ----------------------------------------------------------------------------------------

# -- certificates and keys -------------------------------------------------------------------------------------------

# -- images and containers -------------------------------------------------------------------------------------------

# -- watches and caches ----------------------------------------------------------------------------------------------
