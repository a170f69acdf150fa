"""The keeper of a container's output as a real process, and the reader of what it kept."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pytest

from rig.base import polling
from schedkit.runtimes.containerd import log_files, log_keeper, stdin
from schedkit.runtimes.containers import Output, Stream

_PROGRAM = Path(log_keeper.__file__)
# as containerd's shim does it: the streams as 3 and 4, and 5 to say that it is ready
_STARTED = """
import os, sys
for place, descriptor in ((13, int(sys.argv[2])), (14, int(sys.argv[3])), (15, int(sys.argv[4]))):
    os.dup2(descriptor, place)
for place in (3, 4, 5):
    os.dup2(place + 10, place, inheritable=True)
os.closerange(6, 100)
os.execv(sys.executable, [sys.executable, sys.argv[1], sys.argv[5]])
"""


class Keeper:
    """A running keeper; what is written to `out` and `err` is what a container writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "one"
        out, err, ready = os.pipe(), os.pipe(), os.pipe()
        self.out, self.err = out[1], err[1]
        inherited = (out[0], err[0], ready[1])
        words = [sys.executable, "-c", _STARTED, str(_PROGRAM), *map(str, inherited), str(folder)]
        environment = {"CONTAINER_ID": "one", "CONTAINER_NAMESPACE": "test"}
        self.process = subprocess.Popen(words, env=environment, pass_fds=inherited)
        for descriptor in inherited:
            os.close(descriptor)
        assert os.read(ready[0], 1) == b""
        os.close(ready[0])

    def end(self) -> int:
        for descriptor in (self.out, self.err):
            with suppress(OSError):  # a test has closed it
                os.close(descriptor)
        return self.process.wait(20)


@contextmanager
def keeping(folder: Path) -> Iterator[Keeper]:
    keeper = Keeper(folder)
    try:
        yield keeper
    finally:
        if keeper.process.poll() is None:
            keeper.end()


def text(outputs: Iterator[Output]) -> bytes:
    return b"".join(one.data for one in outputs)


def test_both_streams_are_kept_in_their_order(tmp_path: Path) -> None:
    with keeping(tmp_path) as keeper:
        os.write(keeper.out, b"one\n")
        assert list(log_files.read(keeper.folder)) == [Output(Stream.STDOUT, b"one\n")]
        os.write(keeper.err, b"two\n")

        kept = list(log_files.read(keeper.folder))

    assert kept == [Output(Stream.STDOUT, b"one\n"), Output(Stream.STDERR, b"two\n")]


def test_what_was_written_before_the_question_is_in_the_answer(tmp_path: Path) -> None:
    with keeping(tmp_path) as keeper:
        for number in range(200):
            os.write(keeper.out, b"%d\n" % number)
            assert text(log_files.read(keeper.folder, tail=1)) == b"%d\n" % number


def test_a_line_in_pieces_is_one_line_again(tmp_path: Path) -> None:
    long = b"x" * 50_000
    with keeping(tmp_path) as keeper:
        for piece in (b"be", b"gun\n", long, b"\n", b"without an end"):
            os.write(keeper.out, piece)
        keeper.end()

    assert text(log_files.read(keeper.folder)) == b"begun\n" + long + b"\nwithout an end"


def test_any_bytes_are_kept_as_they_are(tmp_path: Path) -> None:
    said = bytes(range(256)) + b"\n\n \n"
    with keeping(tmp_path) as keeper:
        os.write(keeper.out, said)

        assert text(log_files.read(keeper.folder)) == said


def test_the_end_of_endless_output_is_kept_and_no_more_than_the_limit(tmp_path: Path) -> None:
    line = b"y" * 9999 + b"\n"
    with keeping(tmp_path) as keeper:
        for _ in range(3 * log_keeper.FILE_LIMIT_BYTES // len(line)):
            os.write(keeper.out, line)
        os.write(keeper.out, b"the end\n")
        keeper.end()

    sizes = [file.stat().st_size for file in keeper.folder.glob("log*")]
    assert len(sizes) == 2
    assert sum(sizes) <= 2 * log_keeper.FILE_LIMIT_BYTES
    assert text(log_files.read(keeper.folder)).endswith(line + b"the end\n")


def test_a_follower_misses_nothing_when_files_change_places(tmp_path: Path) -> None:
    lines = [b"%06d %s\n" % (number, b"z" * 990) for number in range(3 * log_keeper.FILE_LIMIT_BYTES // 1000)]
    waiting = iter(lines)
    with keeping(tmp_path) as keeper:

        def write_some() -> bool:
            """Between two looks of the follower."""
            some = list(itertools.islice(waiting, 1000))
            os.write(keeper.out, b"".join(some))
            return not some

        followed = text(log_files.read(keeper.folder, ended=write_some))

    assert followed == b"".join(lines)


def test_only_the_last_lines_and_then_what_follows(tmp_path: Path) -> None:
    with keeping(tmp_path) as keeper:
        os.write(keeper.out, b"1\n2\n3\n")
        follower = log_files.read(keeper.folder, tail=1, ended=lambda: True)
        assert next(follower).data == b"3\n"
        os.write(keeper.out, b"4\n")

        assert text(follower) == b"4\n"


def test_it_ends_with_both_streams_and_not_by_a_signal(tmp_path: Path) -> None:
    with keeping(tmp_path) as keeper:
        keeper.process.send_signal(signal.SIGTERM)
        os.close(keeper.err)
        os.write(keeper.out, b"still here\n")
        assert text(log_files.read(keeper.folder)) == b"still here\n"

        assert keeper.end() == 0


def test_a_disk_without_room_stops_nobody(tmp_path: Path) -> None:
    """/dev/full in place of the log: every write fails as on a full disk."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "log").symlink_to("/dev/full")
    with keeping(tmp_path) as keeper:
        for _ in range(100):
            os.write(keeper.out, b"w" * 10_000 + b"\n")  # would block if nobody took it

        assert keeper.end() == 0


def test_a_folder_that_cannot_be_made_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("in the way")
    with keeping(tmp_path) as keeper:
        os.write(keeper.out, b"heard by nobody\n")

        assert keeper.end() == 0


def test_output_is_not_for_everybody(tmp_path: Path) -> None:
    with keeping(tmp_path) as keeper:
        os.write(keeper.out, b"secret\n")
        keeper.end()

    assert (keeper.folder.stat().st_mode & 0o777, (keeper.folder / "log").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )


@pytest.mark.parametrize("present", [True, False])
def test_what_was_never_kept_is_empty(tmp_path: Path, present: bool) -> None:
    folder = tmp_path / "none"
    if present:
        folder.mkdir()

    assert list(log_files.read(folder)) == []


_LINE = b"2026-01-01T00:00:00.000000000Z stdout F %d\n"


class Rotating(log_files.Files):
    """Files that change places at the worst moment: all was read, and a successor is looked for next."""

    def successor(self) -> BinaryIO | None:
        if not (self.path.with_name("log.1")).exists():
            with self.path.open("ab") as file:
                file.write(_LINE % 2)
            self.path.rename(self.path.with_name("log.1"))
            self.path.write_bytes(_LINE % 3)
        return super().successor()


def test_what_came_between_the_last_look_and_a_change_of_files_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(_LINE % 1)

    with Rotating(tmp_path) as files:
        assert list(files.lines()) == [_LINE % 1, _LINE % 2, _LINE % 3]


def test_half_a_line_of_a_full_disk_is_not_left(tmp_path: Path) -> None:
    """A limit on the size of files does to a write what a full disk does: it ends early."""
    words = (
        "import resource, sys; sys.path.insert(0, sys.argv[1]); import log_keeper, signal;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); keeper = log_keeper.Keeper(sys.argv[2]);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (150, 150));"
        "keeper.take(b'stdout', b'a' * 60 + b'\\n' + b'b' * 60 + b'\\n');"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (150, 150)); keeper.take(b'stderr', b'c\\n')"
    )
    subprocess.run([sys.executable, "-c", words, str(_PROGRAM.parent), str(tmp_path)], check=True, timeout=20)

    assert text(log_files.read(tmp_path)) == b"a" * 60 + b"\nc\n"


def test_what_no_keeper_wrote_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(_LINE % 1 + b"\n2026 nonsense\n2026 stdX F x\n\xff\n" + _LINE % 2)

    assert text(log_files.read(tmp_path)) == b"1\n2\n"


def test_with_input_what_a_task_writes_is_kept_until_its_end(tmp_path: Path) -> None:
    with stdin.kept(_PROGRAM, tmp_path, "one") as fifos:
        writing = [os.open(fifos[each], os.O_WRONLY) for each in ("stdout", "stderr")]

    for descriptor, text in zip(writing, (b"to be kept\n", b"this, too\n"), strict=True):
        os.write(descriptor, text)
        os.close(descriptor)

    polling.until(lambda: not _keepers(tmp_path), "the keeper has ended")
    found = {one.stream: one.data for one in log_files.read(tmp_path / "one")}
    assert found == {Stream.STDOUT: b"to be kept\n", Stream.STDERR: b"this, too\n"}


def test_with_input_no_keeper_outlives_a_creation_that_failed(tmp_path: Path) -> None:
    def create() -> None:
        with stdin.kept(_PROGRAM, tmp_path, "one"):
            assert _keepers(tmp_path)
            raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError):
        create()

    polling.until(lambda: not _keepers(tmp_path), "the keeper has ended")


def test_a_machine_that_can_open_no_more_files_refuses_input_in_words_and_leaks_none(tmp_path: Path) -> None:
    """In a process of its own: what is scarce there is scarce for nobody else."""
    words = (
        "import os, pathlib, resource, sys; "
        "from schedkit.runtimes.containerd import stdin; "
        "from schedkit.runtimes.errors import RefusedError; "
        "program, folder = map(pathlib.Path, sys.argv[1:]); "
        "before = os.listdir('/proc/self/fd'); "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + 2, len(before) + 2))\n"
        "try:\n  stdin.kept(program, folder, 'one').__enter__()\n"
        "except RefusedError as error:\n  print(error)\n"
        "assert len(os.listdir('/proc/self/fd')) == len(before)"
    )

    told = subprocess.run(
        [sys.executable, "-c", words, str(_PROGRAM), str(tmp_path)],
        check=True,
        timeout=20,
        capture_output=True,
        text=True,
    )

    assert told.stdout.startswith("one cannot be given any input: [Errno 24] Too many open files")
    assert not _keepers(tmp_path)


def _keepers(folder: Path) -> list[Path]:
    """The processes that keep something there; one that has ended shows no words."""
    word = os.fsencode(folder)
    return [each for each in Path("/proc").glob("[0-9]*/cmdline") if word in _words(each)]


def _words(command_line: Path) -> list[bytes]:
    with suppress(OSError):
        return command_line.read_bytes().split(b"\0")
    return []
