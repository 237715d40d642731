"""Imitations of Go in kube-apiserver's messages, so that clients and recorded responses see the same text.

Error messages of kube-apiserver contain values that Go has formatted, Go type names, byte offsets of Go's decoders and
its internal structs. Everything that exists only to reproduce them is in this package, which shows how much code the
imitation takes. The rest of Sampan calls this package, which imports nothing outside `sampan.api`.
"""
