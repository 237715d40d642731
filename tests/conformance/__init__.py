"""The official Kubernetes conformance suite, run against a Sampan cluster: `make conformance`.

`programs` builds the suite and the programs of its test images from published Go modules, `images` makes the test
images on a Debian base, `registry` serves them, `cluster` starts a two-node cluster, `run` runs the suite and `report`
writes docs/conformance.md. Nothing of the suite is copied into this repository: go.mod pins the modules.
"""
