"""containerd behind the port, over its gRPC API.

`client` is the adapter. `calls`: how the others call it; `rpc` makes such calls by gRPC, which is slow to
import and is loaded when the first call is made. `images`, `creation`, `oci_spec`, `stdin`: from verified
bytes to a task. `log_keeper` is a program that containerd's shim starts to keep a container's output,
`log_files` reads what it wrote.
"""
