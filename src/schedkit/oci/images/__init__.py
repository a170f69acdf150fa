"""Images wherever they are: in registries, or in layouts on disk.

`ports`: what both have in common. `layout`: an image layout. `digests`: bytes are what their digest says.
`copying`, `inspection`, `packing`, `artifacts`: what can be done with an image. `layer_programs`: the
programs in its layers. Nothing here knows a registry: what it works on is handed in as a port.
"""
