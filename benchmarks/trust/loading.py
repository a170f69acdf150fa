"""Loads the libraries that a keyless verification needs, as `schedctl` loads them, and ends."""

from __future__ import annotations

import gc


def main() -> None:
    """Import them; the rest of a verification is schedkit's own."""
    gc.set_threshold(50_000)
    import json  # noqa: F401, PLC0415 - it is what is measured
    import pathlib  # noqa: F401, PLC0415 - as above
    import ssl  # noqa: F401, PLC0415 - as above

    import click  # noqa: F401, PLC0415 - as above
    import msgspec  # noqa: F401, PLC0415 - as above
    from cryptography import x509  # noqa: F401, PLC0415 - as above
    from cryptography.hazmat.primitives import serialization  # noqa: F401, PLC0415 - as above

    gc.freeze()


if __name__ == "__main__":
    main()
