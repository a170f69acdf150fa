"""`sked` with a kernel in a folder instead of this machine's: run as a program, the folder its first word."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from schedkit.sked.agent import process
from schedkit.sked.main import main

if __name__ == "__main__":
    sys.modules["rich"] = None  # type: ignore[assignment]  # the image has none, and structlog would load it
    folder, run = Path(sys.argv.pop(1)), process.run
    process.run = lambda settings: run(replace(settings, root=folder))
    main()
