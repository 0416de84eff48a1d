import gzip
import io
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from looptrace.analyzer.schema.spans import Skipped
from looptrace.collector.files import sources
from looptrace.collector.files.sources import Source, find_sources, unpacked, unpacked_message
from looptrace.collector.otlp import frames
from looptrace.collector.otlp.frames import DamagedError
from tests.collector.conftest import Write, pack_zstd

NOISE = Random(7).randbytes(300_000)
GZIP = gzip.compress(NOISE)
JUNK = b"junk after the end"


def names(*paths: str) -> list[str]:
    """Find sources, none of which may be skipped, and return their names."""
    found, skipped = find_sources(paths)
    assert skipped == []
    return [source.name for source in found]


def skipped_only(*paths: str) -> Skipped:
    """Find no source, and give the one reason."""
    found, skipped = find_sources(paths)
    assert found == []
    assert len(skipped) == 1
    return skipped[0]


def read_all(name: str) -> tuple[bytes, str | None]:
    """Return all bytes of a file, and the reason why they end early."""
    taken: list[bytes] = []
    try:
        taken.extend(unpacked(Source(name, Path(name)), lambda _: None))
    except DamagedError as damage:
        return b"".join(taken), str(damage)
    return b"".join(taken), None


def test_paths_keep_their_order(write: Write) -> None:
    """The user's order is the order of reading, so that runs can be compared."""
    write("b.json", b"{}")
    write("a.any-ending", b"{}")

    assert names("b.json", "a.any-ending") == ["b.json", "a.any-ending"]


def test_folder_is_searched_by_endings(write: Write) -> None:
    """A folder of traces also holds read-me files, which are no broken traces."""
    kept = ["t/a.json", "t/b.JSONL.gz", "t/c.pb.zst", "t/x/d.ndjson", "t/x/y/e.binpb"]
    for name in [*kept, "t/README.md", "t/x/notes.txt", "t/a.json.bak", "t/.hidden.json"]:
        write(name, b"{}")
    write("t/.git/f.json", b"{}")

    assert kept == names("t")


def test_empty_folder_says_what_was_looked_for(write: Write) -> None:
    """A user with traces under another ending must learn why they were not found."""
    write("t/README.md", b"hello")

    skipped = skipped_only("t")

    assert skipped.where == "t"
    assert ".jsonl" in skipped.why
    assert ".zst" in skipped.why


def test_symbolic_link_cycle_ends(write: Write) -> None:
    """A link to a folder above would be followed for ever."""
    write("t/a.json", b"{}")
    write("t/sub/b.json", b"{}")
    Path("t/sub/up").symlink_to(Path("t").absolute())
    Path("t/sub/again").symlink_to(Path("t/sub").absolute())

    assert names("t") == ["t/a.json", "t/sub/b.json"]
    assert names("t/**/*.json") == ["t/a.json", "t/sub/b.json"]


def test_pipe_in_folder_is_not_opened(write: Write) -> None:
    """Opening a pipe without a writer would hang."""
    write("t/a.json", b"{}")
    os.mkfifo("t/pipe.json")

    assert names("t") == ["t/a.json"]


def test_same_file_is_read_once(write: Write) -> None:
    """Spans counted twice would look like a loop."""
    write("t/a.json", b"{}")
    Path("link.json").symlink_to("t/a.json")

    assert names("t/a.json", "t", "./t/a.json", "link.json", "t/*.json") == ["t/a.json"]


def test_standard_input_is_named_once() -> None:
    """Standard input can be read once only."""
    found, skipped = find_sources(["-", "-"])

    assert [Source("<stdin>")] == found
    assert skipped == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("t/*.json", ["t/a.json"]),
        ("t/*/*.json", ["t/x/b.json"]),
        ("t/**/*.json", ["t/a.json", "t/x/b.json", "t/x/y/c.json"]),
        ("t/**", ["t/a.json", "t/x/b.json", "t/x/y/c.json"]),
        ("t/**/*", ["t/a.json", "t/x/b.json", "t/x/y/c.json"]),
        ("t/x/?.json", ["t/x/b.json"]),
        ("t/[xy]", ["t/x/b.json", "t/x/y/c.json"]),
        ("t/x/../*.json", ["t/x/../a.json"]),
        ("t/.h*", ["t/.hidden.json"]),
    ],
)
def test_pattern_matches(write: Write, pattern: str, expected: list[str]) -> None:
    """Not every shell expands patterns, and none does inside quotes."""
    for name in ["t/a.json", "t/x/b.json", "t/x/y/c.json", "t/.hidden.json"]:
        write(name, b"{}")

    assert expected == names(pattern)


def test_absolute_pattern_matches(write: Write, tmp_path: Path) -> None:
    """Patterns of programs are often absolute."""
    write("t/a.json", b"{}")

    assert [str(tmp_path / "t/a.json")] == names(str(tmp_path / "*" / "a.json"))


def test_file_with_pattern_characters_is_a_file(write: Write) -> None:
    """The name of an existing file is taken literally."""
    write("run[1].json", b"{}")
    write("run1.json", b"{}")

    assert names("run[1].json") == ["run[1].json"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("gone.json", "no such file"),
        ("", "no such file"),
        ("a\0b", "no such file"),
        ("file.txt/below", "no such file"),
        ("dangling.json", "no such file"),
        ("gone/*.json", "no file matches"),
        ("*.nothing", "no file matches"),
        ("**x/*.json", "pattern"),
        ("a" * 5000, "file name too long"),
    ],
)
def test_path_that_names_nothing_is_reported(write: Write, path: str, why: str) -> None:
    """A mistyped path must not look like an input without loops."""
    write("file.txt", b"")
    Path("dangling.json").symlink_to("nowhere")

    skipped = skipped_only(path)

    assert path == skipped.where
    assert why in skipped.why


def test_folder_without_permission_is_reported(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies beside a closed folder is still read."""
    write("t/a.json", b"{}")
    write("t/closed/b.json", b"{}")
    scan = os.scandir

    def refusing(path: str) -> Iterator[os.DirEntry[str]]:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found, skipped = find_sources(["t"])

    assert [source.name for source in found] == ["t/a.json"]
    assert [part.where for part in skipped] == ["t/closed"]
    assert "permission denied" in skipped[0].why


@pytest.mark.parametrize(
    ("kind", "packed"),
    [
        ("gzip", GZIP + JUNK),
        ("gzip", GZIP[:-6] + bytes([GZIP[-6] ^ 0xFF]) + GZIP[-5:]),
        ("zstd", pack_zstd(NOISE) + JUNK),
    ],
    ids=["junk", "checksum", "zstd"],
)
def test_damaged_packing_gives_what_came_before(write: Write, kind: str, packed: bytes) -> None:
    """A wrong end does not make the rest unreadable; the packings fail with different errors."""
    data, why = read_all(write("a.packed", packed))

    assert data == NOISE
    assert why is not None
    assert f"{kind} data is damaged" in why


def test_long_message_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message is held in memory as a whole, so its length has a bound."""
    for module in (sources, frames):
        monkeypatch.setattr(module, "FRAME_BYTES_MAX", 1000)

    with pytest.raises(DamagedError, match="longer than 1,000 bytes"):
        unpacked_message(GZIP)


def test_progress_counts_bytes_on_disk(write: Write) -> None:
    """A bar that counts unpacked bytes would run past its end."""
    told: list[int] = []
    for _ in unpacked(Source("a", Path(write("a.gz", GZIP))), told.append):
        assert told

    assert told == sorted(told)
    assert told[-1] == len(GZIP)


def test_closed_standard_input_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some service managers start programs without one."""
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(DamagedError, match="cannot be read: bad file descriptor"):
        list(unpacked(Source("<stdin>"), lambda _: None))


def test_a_file_that_was_packed_twice_is_unpacked(write: Write) -> None:
    """An upload packs again what was packed before."""
    data, why = read_all(write("a.gz.gz", gzip.compress(gzip.compress(NOISE))))

    assert (data, why) == (NOISE, None)


def archive(**files: bytes) -> bytes:
    """Return a ZIP archive; `__` in a name stands for a folder."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name.replace("__", "/") + ".json", data)
    return packed.getvalue()


def read_in(name: str) -> dict[str, bytes]:
    """Return the bytes of each file that an archive is read for."""
    found, skipped = find_sources([name, name])
    assert skipped == []
    return {each.name: b"".join(unpacked(each, lambda _: None)) for each in found}


def test_the_files_of_an_archive_are_read(write: Write) -> None:
    """Exports come as ZIP, and a log of Inspect is one; each file of it is read once."""
    write("a.zip", archive(x=b"1", y__z=b"2"))
    assert read_in("a.zip") == {"a.zip/x.json": b"1", "a.zip/y/z.json": b"2"}
    write("run.eval", archive(header=b"0", samples__1_epoch_1=b"1", summaries=b"2"))
    assert read_in("run.eval") == {"run.eval/samples/1_epoch_1.json": b"1"}
    write("chats.zip", archive(user=b"0", conversations=b"1", shared_conversations=b"2"))
    assert read_in("chats.zip") == {"chats.zip/conversations.json": b"1"}


def test_an_archive_that_cannot_be_read_says_why(write: Write) -> None:
    """Damaged, without traces, or a bomb."""
    write("cut.zip", archive(x=NOISE)[:1000])
    assert "a damaged ZIP archive" in skipped_only("cut.zip").why
    write("none.zip", archive(x=b"{}").replace(b"x.json", b"x.docs"))
    assert "without trace files" in skipped_only("none.zip").why
    write("bomb.zip", archive(x=b" " * (sources.TRUSTED_BYTES + 1)))
    assert "decompression bomb" in skipped_only("bomb.zip").why
    damaged, locked = bytearray(archive(x=NOISE)), bytearray(archive(x=b"{}"))
    damaged[len(damaged) // 2] ^= 0xFF
    locked[6] |= 1  # The flag of an encrypted file, in its head and in the list of files.
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    for packed, why in ((damaged, "Bad CRC|invalid"), (locked, "password")):
        write("bad.zip", bytes(packed))
        ((source,), _) = find_sources(["bad.zip"])
        with pytest.raises(DamagedError, match=why):
            list(unpacked(source, lambda _: None))


def test_a_fault_of_whoever_reads_an_archive_is_its_own(write: Write) -> None:
    """It is not taken for one of the archive."""
    write("a.zip", archive(x=b"1"))
    ((source,), _) = find_sources(["a.zip"])

    def fail(_: int) -> None:
        raise RuntimeError("the reader's own")

    with pytest.raises(RuntimeError, match="the reader's own"):
        list(unpacked(source, fail))
