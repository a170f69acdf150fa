"""Container runtimes behind one small port, `port.Runtime`.

The port's values: `Container` of `model.host`, `containers` (what a runtime says beside that), `specs` (what
to create), `image_content` (verified bytes on their way in), `errors`. `sockets`: connecting, and each way in
which that fails. Two adapters: `podman` and `containerd`, which never import each other; the same contract
tests run against both, and against the fake of unit tests.
"""
