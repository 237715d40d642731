"""Volume plugins, one module each (`pkg/volume/*`); `plugin_table` lists them. Their interface is
`sampan.kubelet.volumes.contract`.
"""
