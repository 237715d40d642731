"""Container images: names, sources, and the image store that all nodes of a machine share.

It corresponds to the content and image stores of containerd. `reference` parses names, `manifests` parses indexes,
manifests and configurations, `layers` unpacks layers, and `store` keeps content by digest and the names of images.
`mounts` mounts layers, as root file systems and image volumes.
`archives` loads images from files, `registry` pulls them, `host` makes an image of the machine's own programs. Several
processes may use a store at once: content is put in place by an atomic rename, and the table of names is changed under
a lock.
"""

from sampan.runtimes.images.reference import BadReference, ImageReference, parse_reference
from sampan.runtimes.images.store import ImageStore, ImageUnknown, StoredImage

__all__ = ["BadReference", "ImageReference", "ImageStore", "ImageUnknown", "StoredImage", "parse_reference"]
