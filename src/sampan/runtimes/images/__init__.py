"""Images: their names, where they come from, and how they are kept on disk for every node of a machine.

`reference` reads names, `manifests` what an image says of itself, `blobs` keeps content by its digest, `layers` unpacks
it, `store` brings these together; `archives` reads images from files, `registry` fetches them, `host` makes one of the
machine's own programs. Everything may be used by several processes at once: content is put in place by one rename, and
the table of names is changed under a lock.
"""

from sampan.runtimes.images.reference import BadReference, Reference, parse_reference
from sampan.runtimes.images.store import Image, ImageStore, ImageUnknown

__all__ = ["BadReference", "Image", "ImageStore", "ImageUnknown", "Reference", "parse_reference"]
