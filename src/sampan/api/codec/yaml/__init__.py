"""YAML as kube-apiserver reads it and as kubectl prints it: the counterpart of `sigs.k8s.io/yaml`, which reads YAML
1.1.

`decode` returns the JSON value of the first document and the strict errors; `encode` writes a JSON value. The nesting
and the size of the JSON form are bounded here, the size of the text by the caller.
"""

from sampan.api.codec.yaml.nodes import YamlError, YamlTooLargeError
from sampan.api.codec.yaml.reader import DecodedYaml, decode, strict_message
from sampan.api.codec.yaml.writer import encode

__all__ = ["DecodedYaml", "YamlError", "YamlTooLargeError", "decode", "encode", "strict_message"]
