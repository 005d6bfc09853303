"""A folder on an object store (S3, Google Cloud Storage, Azure), through obstore, which is optional.

`create` is atomic: of any number of writers one succeeds. Its outcome may be unknown, when the connection breaks after
the store has carried it out: then it is tried again, and who finds the name taken looks whether the content is its own.
So content must be of one writer alone (versions carry the name of their run). There are no folders to make and no
temporary files: an object appears whole. To move is to copy, then to delete, so that a name may be there twice for a
moment, with the same content.

A store that does not answer is tried again for a bounded time. Errors are ours, and name the public address alone: what
the client says of itself may have secrets in it, so that only the code and message of the store's answer are quoted.
Clients are kept for the life of the process, so that connections are.
"""

from __future__ import annotations

import errno
import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from watersmeet.errors import AddressError, ResourceError
from watersmeet.state.addresses import StoreAddress

_CLIENTS: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
_OF_CONNECTION = ("allow_http", "timeout", "connect_timeout")

# With these a store that refuses connections is given up after some 5 seconds, one that never answers after a minute.
_CONNECTION = {"connect_timeout": "5s", "timeout": "60s"}
_RETRY = {
    "max_retries": 5,
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
    "retry_timeout": timedelta(seconds=60),
}
# Before the tries of a creation with an unknown outcome, beside those that the client makes by itself.
_PAUSES_SECONDS = (0.0, 0.1, 0.4, 1.6, 5.0)

_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_NO_CREDENTIALS = ("169.254.169.254", "metadata.google.internal", "CredentialsNotLoaded", "NoCredentials")
_NO_ACCESS = ("401 Unauthorized", "403 Forbidden", "<Code>AccessDenied</Code>")  # where the client makes no difference
_UNTRIED = ("<Code>NotImplemented</Code>", "501 Not Implemented")


@lru_cache(maxsize=64)
def _client(kind: str, bucket: str, settings: tuple[tuple[str, str], ...], process: int) -> Any:
    told = dict(settings)
    connection: dict[str, Any] = {**_CONNECTION, **{name: told.pop(name) for name in _OF_CONNECTION if name in told}}
    # The environment may name an endpoint too, as the store's own tools have it; one without encryption is meant so.
    named = [os.environ.get(name, "") for name in _ENDPOINT_VARIABLES if kind == "s3"]
    if connection.pop("allow_http", "") == "true" or any(endpoint.startswith("http://") for endpoint in named):
        connection["allow_http"] = True
    return _CLIENTS[kind](bucket, config=told, client_options=connection, retry_config=_RETRY)


class StoreFolder:
    """The objects under a key. Names have no slash in them."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address

    @property
    def _store(self) -> Any:
        address = self.address
        with _errors("use", address.public):
            return _client(address.kind, address.bucket, address.settings, os.getpid())

    def _key(self, name: str) -> str:
        return self.address.child(name).key

    def _public(self, name: str) -> str:
        return self.address.child(name).public

    def put(self, name: str, content: Path) -> None:
        """Write the object, in parts where it is long."""
        with _errors("write", self._public(name)):
            obstore.put(self._store, self._key(name), content)

    def create(self, name: str, data: bytes) -> bool:
        """Write the object if there is none of this name; whether it is there with just this content."""
        for pause in _PAUSES_SECONDS:
            time.sleep(pause)
            with _errors("write", self._public(name)):
                try:
                    obstore.put(self._store, self._key(name), data, mode="create", use_multipart=False)
                    return True
                except (AlreadyExistsError, PreconditionError):
                    # Another writer's, or our own, of a try whose answer did not reach us. One that has been deleted
                    # since was another's: nobody deletes what is still being written.
                    return self._is(name, data)
                except (NotSupportedError, PermissionDeniedError, UnauthenticatedError, FileNotFoundError):
                    raise
                except BaseError as error:
                    if pause == _PAUSES_SECONDS[-1] or _says(error, _NO_CREDENTIALS + _UNTRIED):
                        raise
        raise AssertionError("the last try has an outcome, or raises")

    def read(self, name: str) -> bytes:
        """The content; `FileNotFoundError` if there is no such object."""
        with _errors("read", self._public(name)):
            return bytes(obstore.get(self._store, self._key(name)).bytes())

    def pieces(self, name: str) -> Iterator[bytes]:
        """The content in pieces; `FileNotFoundError`, at once, if there is no such object."""
        with _errors("read", self._public(name)):
            stream = obstore.get(self._store, self._key(name)).stream()
        return self._go_through(stream, self._public(name))

    def _go_through(self, stream: Any, public: str) -> Iterator[bytes]:
        with _errors("read", public):
            for piece in stream:
                yield bytes(piece)

    def _is(self, name: str, data: bytes) -> bool:
        try:
            return self.read(name) == data
        except FileNotFoundError:
            return False

    def exists(self, name: str) -> bool:
        try:
            with _errors("look for", self._public(name)):
                obstore.head(self._store, self._key(name))
        except FileNotFoundError:
            return False
        return True

    def names(self) -> list[str]:
        """What lies directly under the key, objects and folders, sorted."""
        with _errors("list", self.address.public):
            found = obstore.list_with_delimiter(self._store, self.address.key or None)
        keys = [*(entry["path"] for entry in found["objects"]), *found["common_prefixes"]]
        return sorted(key.rstrip("/").rpartition("/")[2] for key in keys)

    def copy_out(self, name: str, target: StoreFolder) -> bool:
        """Copy the object to another folder of the same store; False if it is not there any more."""
        try:
            with _errors("copy", self._public(name)):
                obstore.copy(self._store, self._key(name), target._key(name))
        except FileNotFoundError:
            return False
        return True

    def delete_all(self, names: Sequence[str]) -> None:
        """Remove those of the objects that are there, many in one request."""
        if names:
            with _errors("delete from", self.address.public):
                obstore.delete(self._store, [self._key(name) for name in names])

    def check_creates(self) -> None:
        """Raise `AddressError` if the store does not keep its word that of two writers of a name one is refused.

        Some that speak S3 pass over the condition. On those two runs could destroy a checkpoint.
        """
        name = f"probe-{uuid.uuid4().hex[:12]}"
        first = self.create(name, b"first")
        second = self.create(name, b"second")
        self.delete_all([name])
        if first and second:
            raise AddressError(
                "the store does not refuse to create an object that exists",
                detail=f"{self.address.public}: a second write with the condition If-None-Match was carried out.",
                hint="Use a store with conditional writes, or a newer release of this one.",
            )


def _says(error: BaseException, marks: Sequence[str]) -> bool:
    return any(mark in str(error) for mark in marks)


@contextmanager
def _errors(doing: str, public: str) -> Iterator[None]:
    """An error of the client becomes one of ours, or, where there is no such object, a `FileNotFoundError`."""
    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        if isinstance(error, FileNotFoundError) and not _says(error, _NO_BUCKET):
            raise FileNotFoundError(errno.ENOENT, "no such object", public) from None
        raise _translate(error, doing, public) from None
    except ValueError as error:  # the client does not take a setting
        raise AddressError(f"cannot {doing} {public}", detail=_first_line(str(error))) from None


def _translate(error: Exception, doing: str, public: str) -> AddressError | ResourceError:
    said = _answer(str(error))
    if _says(error, _NO_BUCKET):
        bucket = re.sub(r"^(\w+://[^/]+).*", r"\1", public)
        return AddressError(
            f"there is no {bucket}", detail=f"Needed to {doing} {public}.", hint="Make it, or check the address."
        )
    if _says(error, _NO_CREDENTIALS):
        return AddressError(
            f"no credentials for {public}",
            detail="There are none in the environment, and no service of this machine hands any out.",
            hint="Set them as the store's own tools have them, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)) or _says(error, _NO_ACCESS):
        return AddressError(
            f"no access to {public}",
            detail=f"Could not {doing} it: {said}.",
            hint="Check the credentials, and that they may read, write, list and delete there.",
        )
    return ResourceError(
        f"cannot {doing} {public}",
        detail=f"The store could not be reached, or failed: {said}. A version whose write was under way may or may not "
        "have been committed; nothing else was.",
        hint="See that it can be reached, and start the run again: it finds out, and goes on from there.",
    )


def _answer(text: str) -> str:
    """What a store has answered, or what went wrong on the way there.

    >>> _answer("Generic S3 error: .. <Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>")
    'SlowDown: Reduce your rate'
    >>> _answer("Generic S3 error: Error performing GET http://x/a in 2ms - HTTP error: error sending request")
    'HTTP error: error sending request'
    """
    code, message = re.search(r"<Code>(.*?)</Code>", text), re.search(r"<Message>(.*?)</Message>", text)
    if code:
        return code[1] + (f": {message[1].rstrip('.')}" if message else "")
    return _first_line(text).rpartition(" - ")[2]


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:300] if text.strip() else "no message"
