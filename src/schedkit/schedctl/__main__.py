"""Where `schedctl` begins and ends."""

from __future__ import annotations

import gc

from schedkit.schedctl.latepatterns import compiled_late

_RARELY = 50_000  # new objects, before it is looked which of them are garbage


def main() -> None:
    """Run the command line.

    A sixth of a short command's time would go into looking for garbage: while code is loaded, which makes
    none, and at the end, when the kernel takes all memory back anyway. A tenth of `verify` would go into
    compiling expressions that libraries have and nobody uses.
    """
    gc.set_threshold(_RARELY)
    with compiled_late():
        from schedkit.schedctl.main import main as command  # noqa: PLC0415 - see above

        try:
            command()
        finally:
            gc.freeze()


if __name__ == "__main__":
    main()
