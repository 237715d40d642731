"""Volume plug-ins, one module each (`pkg/volume/*`); `table` lists them. Their interface is
`sampan.kubelet.volumes.contract`.
"""
