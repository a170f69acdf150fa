"""A machine full of processes and open files: run as a program, which they all end with.

They wait for a pipe of which this process alone holds the other end.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys

# shells that do nothing: a hundredth of the memory that as many interpreters would take
_SHELLS = (
    'exec 3<&0; i=0; while [ $i -lt "$0" ]; do ( read -r word <&3 ) & i=$((i+1)); done; echo; read -r word'
)


def main(processes: int, files: int) -> None:
    """Make them, say so, and wait until killed."""
    reading, writing = os.pipe()
    per_process = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 64, files)
    while files > 0:
        _open(min(files, per_process), reading, writing)
        files -= per_process
    shells = subprocess.Popen(
        ["sh", "-c", _SHELLS, str(processes)],
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    if shells.stdout is not None:
        shells.stdout.readline()
    print("ready", flush=True)
    shells.wait()


def _open(count: int, reading: int, writing: int) -> None:
    """A process with that many open files."""
    opened, told = os.pipe()
    if os.fork() == 0:
        os.close(writing)
        for _ in range(count):
            os.dup(told)
        os.write(told, b"x")
        os.read(reading, 1)
        os._exit(0)
    os.close(told)
    os.read(opened, 1)
    os.close(opened)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
