"""Podman behind the port, over its REST API.

`client` is the adapter. `server`: its socket, which is asked a `request`; `http`: how, by h11. `answers` and
`create_body`: its JSON from and to the port's values, without I/O. `archive`: an image as `podman load` reads
it.
"""
