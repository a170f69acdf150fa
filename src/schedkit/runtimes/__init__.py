"""Container runtimes behind one small port, `port.Runtime`: Podman and containerd.

An adapter translates and nothing else: which container to start or stop is decided elsewhere. Whoever uses
Podman imports neither gRPC nor TLS.
"""
