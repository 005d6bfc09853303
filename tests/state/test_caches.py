"""The folder for copies of remote files is the user's own."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from watersmeet.errors import ResourceError
from watersmeet.state.caches import LOOK_SECONDS, UNUSED_SECONDS, cache_folder
from watersmeet.state.files import Folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that is everybody's, as the system's is."""
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cache_folder.cache_clear()
    return tmp_path


def default(temporary: Path) -> Path:
    return temporary / f"watersmeet-cache-{os.getuid()}"


def test_the_default_one_is_made_for_the_user_alone(temporary: Path) -> None:
    assert Path(cache_folder(None)) == default(temporary)
    assert stat.S_IMODE(default(temporary).stat().st_mode) == 0o700


def test_one_that_is_there_and_the_users_is_taken(temporary: Path) -> None:
    default(temporary).mkdir(mode=0o755)
    assert Path(cache_folder(None)) == default(temporary)
    assert stat.S_IMODE(default(temporary).stat().st_mode) == 0o700, "and is for nobody else to read from now on"


def test_one_that_others_may_write_to_is_refused(temporary: Path) -> None:
    default(temporary).mkdir()
    default(temporary).chmod(0o777)
    with pytest.raises(ResourceError, match="others may write to it") as caught:
        cache_folder(None)
    assert caught.value.hint is not None
    assert "cache in [run]" in caught.value.hint


def test_a_link_to_somewhere_else_is_refused(temporary: Path) -> None:
    (temporary / "elsewhere").mkdir()
    default(temporary).symlink_to(temporary / "elsewhere")
    with pytest.raises(ResourceError, match="it is a link"):
        cache_folder(None)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_somebody_elses_is_refused(temporary: Path) -> None:
    default(temporary).mkdir(mode=0o700)
    os.chown(default(temporary), 12345, 12345)
    with pytest.raises(ResourceError, match="it belongs to user 12345"):
        cache_folder(None)


def test_one_that_the_user_names_may_be_shared(temporary: Path) -> None:
    shared = temporary / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert cache_folder(str(shared)) == str(shared)
    assert cache_folder(str(temporary / "new" / "one")) == str(temporary / "new" / "one")
    assert stat.S_IMODE((temporary / "new" / "one").stat().st_mode) == 0o700


def test_a_file_in_its_place(temporary: Path) -> None:
    (temporary / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot keep copies of remote files"):
        cache_folder(str(temporary / "file"))


def aged(path: Path, seconds: float) -> Path:
    time = path.stat().st_mtime - seconds
    os.utime(path, (time, time))
    return path


def test_copies_that_nobody_opens_any_more_are_dropped(tmp_path: Path) -> None:
    """As on a host that hears nothing of what the driver deletes."""
    cache = tmp_path / "cache"
    folder, other = (Folder(str(tmp_path / name), str(cache)) for name in ("one", "other"))
    for place in (folder, other):
        place.make()
        for name in "abc":
            place.write(name, lambda sink: sink.write(b"rows"))
            place.open(name).close()
    (cache / "somebody-elses").mkdir()
    foreign = aged_file(cache / "somebody-elses" / "x")
    copies = sorted(cache.glob("????????/[abc]"))
    assert len(copies) == 6
    for path in copies:
        aged(path, UNUSED_SECONDS + 5)
    folder.open("a").close()  # in use again
    folder.write("d", lambda sink: sink.write(b"more"))
    folder.open("d").close()
    assert len(sorted(cache.glob("????????/[abc]"))) == 6, "somebody has looked just now"
    aged(cache / ".looked", LOOK_SECONDS + 5)
    folder.write("e", lambda sink: sink.write(b"more"))
    folder.open("e").close()
    assert sorted(path.name for path in cache.glob("????????/?")) == ["a", "d", "e"]
    assert foreign.exists()
    assert [folder.open(name).read() for name in "abcde"] == [b"rows"] * 3 + [b"more"] * 2


def aged_file(path: Path) -> Path:
    path.write_text("")
    return aged(path, 2 * UNUSED_SECONDS)
