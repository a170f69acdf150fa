"""Images as values: what they are called, what they are made of, what they say about themselves.

Begin with `references`: digests, references, platforms, descriptors. `grammar` has their syntax, shared with
the CRD. `content` is bytes with the descriptor that names them. `manifests` and `configs` read an image's
documents by `strictjson`, `elf` reads a program's header, `tags` sorts tags as versions. Nothing here imports
another room. Parsing is strict: what two readers could understand differently is refused, also where other
tools are lenient.
"""
