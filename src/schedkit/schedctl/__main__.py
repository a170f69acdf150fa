"""Where `schedctl` begins and ends."""

from __future__ import annotations

import gc

_RARELY = 50_000  # new objects, before it is looked which of them are garbage


def main() -> None:
    """Run the command line.

    A sixth of a short command's time would go into looking for garbage: while code is loaded, which makes
    none, and at the end, when the kernel takes all memory back anyway.
    """
    gc.set_threshold(_RARELY)
    from schedkit.schedctl.main import main as command  # noqa: PLC0415 - see above

    try:
        command()
    finally:
        gc.freeze()


if __name__ == "__main__":
    main()
