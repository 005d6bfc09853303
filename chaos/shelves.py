"""Where delivered rows lie, under names that a judge remembers: a folder of files, or the calls of a function."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.wrong import WrongError
from function_sink import calls, check_ids
from watersmeet.state.files import Folder


class Shelf(Protocol):
    def names(self) -> list[str]:
        """What lies there now."""

    def table(self, name: str) -> pa.Table:
        """The rows of one of them."""

    def clear(self, names: Sequence[str]) -> bool:
        """As a reader may, take these away; whether they have gone from here."""


class FolderShelf:
    """Files in the folder of a sink, which the product delivers by their names."""

    def __init__(self, address: str) -> None:
        self._folder = Folder(address)

    def names(self) -> list[str]:
        return [n for n in self._folder.names() if n.endswith(".parquet") and not n.startswith((".", "_"))]

    def table(self, name: str) -> pa.Table:
        try:
            return pq.read_table(io.BytesIO(self._folder.read(name)), use_threads=False)
        except pa.ArrowInvalid as error:
            raise WrongError(f'the delivered file "{name}" cannot be read: {error}') from None

    def clear(self, names: Sequence[str]) -> bool:
        self._folder.delete_all(list(names))
        return True


class CallShelf:
    """What a function of `foreachBatch` has taken, which is idempotent by id: the same id again adds nothing."""

    def __init__(self, home: Path, columns: Sequence[str]) -> None:
        self._home = home
        self._columns = tuple(columns)

    def names(self) -> list[str]:
        made = calls(self._home)
        try:
            check_ids(made)
        except AssertionError as error:
            raise WrongError(f"the function of foreachBatch: {error}") from None
        return [f"id {number}" for number in dict.fromkeys(call.id for call in made if call.took)]

    def table(self, name: str) -> pa.Table:
        (rows,) = {call.rows for call in calls(self._home) if call.took and name == f"id {call.id}"}
        columns = list(zip(*rows, strict=True)) or [()] * len(self._columns)
        return pa.table({n: pa.array(c, pa.int64()) for n, c in zip(self._columns, columns, strict=True)})

    def clear(self, names: Sequence[str]) -> bool:
        return False  # what was taken stays known by its id
