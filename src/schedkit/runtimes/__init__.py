"""Container runtimes behind one small port, `port.Runtime`.

The port's values: `containers` (what a runtime knows), `specs` (what to create), `image_content` (verified
bytes on their way in), `errors`. `sockets`: connecting, and each way in which that fails. Two adapters:
`podman` and `containerd`, which never import each other; the same contract tests run against both.
"""
