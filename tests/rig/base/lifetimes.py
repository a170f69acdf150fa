"""What is started at the beginning of a `with` block and stopped at its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Startable(ABC):
    """Something that runs for the length of a block; a start that fails half-way leaves nothing running."""

    @abstractmethod
    def start(self) -> None:
        """Returns when it does its work."""

    @abstractmethod
    def stop(self) -> None:
        """End it; nothing happens if it does not run."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
