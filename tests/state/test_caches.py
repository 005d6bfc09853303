"""The folder for copies of remote files is the user's own."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from watersmeet.errors import ResourceError
from watersmeet.state.caches import cache_folder


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
