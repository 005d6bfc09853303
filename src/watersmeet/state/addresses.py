"""Addresses of folders as users write them, and what each client makes of them: pure functions.

- On this machine: a path, `file:` with a path, or `dbfs:/x`, which Databricks shows as `/dbfs/x`.
- On an object store: `s3://bucket/x` (or `s3a`, `s3n`), `gs://bucket/x`, and for Azure `az://container/x` or
  `abfss://container@account.dfs.core.windows.net/x` (or `abfs`). How to reach it may follow a `?`, such as
  `endpoint_override=127.0.0.1:9000&scheme=http&region=here`, and a key and its secret may stand before the bucket; what
  is not said comes from the environment, as the store's own tools have it.
- `hdfs://..` is for streams alone, which need no file to be created by one writer and no other.

Secrets are in `StoreAddress.settings` and in what clients are told; `public` has none of them, and is what messages,
manifests and names are made from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from watersmeet.errors import AddressError, did_you_mean

LOCAL_SCHEMES = ("", "file", "dbfs")
# By what users write: the kind of store.
STORE_SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
SUPPORTED = "Supported are local and shared folders, s3://, s3a://, gs://, abfss:// and az:// addresses."

_AZURE_HOST = ".dfs.core.windows.net"
# By the name that users give an option: the client's name for it. The first of several names is ours.
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "s3": {
        "region": "region",
        "access_key_id": "access_key_id",
        "access_key": "access_key_id",
        "secret_access_key": "secret_access_key",
        "secret_key": "secret_access_key",
        "session_token": "session_token",
        "anonymous": "skip_signature",
        "virtual_hosted_style": "virtual_hosted_style_request",
    },
    "gs": {"service_account": "service_account", "anonymous": "skip_signature"},
    "az": {
        "account_name": "account_name",
        "account_key": "account_key",
        "sas_key": "sas_key",
        "use_emulator": "use_emulator",
        "anonymous": "skip_signature",
    },
}
# Options whose values are no secrets. Of an address that this does not know, all may be.
_OPEN_OPTIONS = {"region", "anonymous", "virtual_hosted_style", "account_name", "use_emulator"}
_ENDPOINTS = ("endpoint_override", "endpoint", "endpoint_url")
_REACH = ("scheme", "allow_http", "timeout", "connect_timeout")
_ENDPOINT_SETTING = {"s3": "endpoint", "gs": "base_url", "az": "endpoint"}


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as error:  # not quoted: who knows what is a secret in it
        raise AddressError("an address cannot be read", detail=f"{error}.", hint="Check its brackets.") from None


def is_local(address: str) -> bool:
    """Whether `address` is a path of this machine.

    >>> is_local("/data/ck"), is_local("file:///data/ck"), is_local("dbfs:/ck"), is_local("s3://bucket/ck")
    (True, True, True, False)
    """
    scheme = _split(address).scheme
    return scheme in LOCAL_SCHEMES or len(scheme) == 1


def local_path(address: str) -> str:
    """The absolute path that a local address means.

    >>> local_path("file:///data/ck"), local_path("dbfs:/data/ck")
    ('/data/ck', '/dbfs/data/ck')
    """
    if address.startswith("dbfs:"):
        return os.path.abspath(f"/dbfs/{_split(address).path.lstrip('/')}")
    return os.path.abspath(_split(address).path if address.startswith("file:") else address)


@dataclass(frozen=True)
class StoreAddress:
    """A place on an object store: the kind of store, the bucket or container, the key without slashes at its ends, and
    what the client is told beside, sorted."""

    kind: str
    bucket: str
    key: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def public(self) -> str:
        """The address without a secret, and without how to reach it.

        >>> parse_address("s3a://key:secret@bucket/a/b/?region=here").public
        's3://bucket/a/b'
        >>> parse_address("abfs://box@acme.dfs.core.windows.net/a").public
        'abfss://box@acme.dfs.core.windows.net/a'
        """
        account = dict(self.settings).get("account_name")
        if self.kind == "az" and account:
            return f"abfss://{self.bucket}@{account}{_AZURE_HOST}/{self.key}".rstrip("/")
        return f"{self.kind}://{self.bucket}/{self.key}".rstrip("/")

    @property
    def hadoop(self) -> str:
        """As Spark's own readers and writers take it. How to reach it they are told by Spark's settings.

        >>> parse_address("s3://bucket/a?region=here").hadoop, parse_address("gs://bucket/a").hadoop
        ('s3a://bucket/a', 'gs://bucket/a')
        """
        return self.public.replace("s3://", "s3a://", 1) if self.kind == "s3" else self.public

    @property
    def arrow(self) -> str:
        """As the address of a filesystem of pyarrow, which reads the files of streams.

        >>> parse_address("s3a://k:s%2F@b/x?endpoint_override=127.0.0.1:9000&scheme=http&region=r").arrow
        's3://k:s%2F@b/x?region=r&endpoint_override=127.0.0.1%3A9000&scheme=http'
        """
        told = dict(self.settings)
        if self.kind == "az":
            return self.public
        query = {"region": told["region"]} if "region" in told else {}
        if (endpoint := told.get(_ENDPOINT_SETTING[self.kind])) is not None:
            scheme, _, host = endpoint.partition("://")
            query |= {"endpoint_override": host, "scheme": scheme}
        who = ""
        if self.kind == "gs" and told.get("skip_signature") == "true":
            who = "anonymous@"
        elif "access_key_id" in told and "secret_access_key" in told:
            who = f"{quote(told['access_key_id'], safe='')}:{quote(told['secret_access_key'], safe='')}@"
        return f"{self.kind}://{who}{self.bucket}/{self.key}".rstrip("/") + (f"?{urlencode(query)}" if query else "")

    def child(self, name: str) -> StoreAddress:
        return replace(self, key=f"{self.key}/{name}" if self.key else name)


def parse_address(address: str) -> StoreAddress:
    """The place on an object store that `address` means, in whatever words.

    >>> parse_address("s3a://bucket/ck/") == parse_address("s3://bucket/ck")
    True
    >>> dict(parse_address("s3://b/x?endpoint_override=localhost:9000&scheme=http").settings)
    {'allow_http': 'true', 'endpoint': 'http://localhost:9000'}
    >>> dict(parse_address("abfss://box@acme.dfs.core.windows.net/x").settings)
    {'account_name': 'acme'}
    """
    parts = _split(address)
    if parts.scheme not in STORE_SCHEMES:
        raise AddressError(
            f"{parts.scheme} addresses are not supported for checkpoints and outputs",
            detail=f"{public_address(address)} is on a store that files cannot be created on by one writer and no "
            f"other, or that this was not tried on. {SUPPORTED}",
            hint=did_you_mean(parts.scheme, STORE_SCHEMES),
        )
    kind = STORE_SCHEMES[parts.scheme]
    told: dict[str, str] = {}
    who, _, bucket = parts.netloc.rpartition("@")
    if kind == "az" and who:
        bucket, told["account_name"] = who, bucket.partition(".")[0]
    elif ":" in who:
        key, _, secret = who.partition(":")
        told["access_key_id"], told["secret_access_key"] = unquote(key), unquote(secret)
    if not bucket:
        raise AddressError(
            f'the address "{public_address(address)}" names no bucket', hint=f"For example {kind}://bucket/folder."
        )
    told.update(_settings(kind, dict(parse_qsl(parts.query, keep_blank_values=True)), public_address(address)))
    return StoreAddress(kind, bucket, parts.path.strip("/"), tuple(sorted(told.items())))


def _settings(kind: str, options: Mapping[str, str], public: str) -> dict[str, str]:
    """What the client is told for the options after a `?`."""
    known = _OPTIONS[kind]
    told: dict[str, str] = {}
    for name, value in options.items():
        if name in known:
            told[known[name]] = value
        elif name not in _ENDPOINTS and name not in _REACH:
            names = (*known, *_ENDPOINTS, *_REACH)
            raise AddressError(
                f'unknown option "{name}" in an address',
                detail=f"{public} has it after the question mark. Options there are {', '.join(sorted(names))}.",
                hint=did_you_mean(name, names),
            )
    told.update({name: options[name] for name in ("timeout", "connect_timeout") if name in options})
    endpoint = next((options[name] for name in _ENDPOINTS if options.get(name)), None)
    insecure = options.get("allow_http", "").lower() == "true" or options.get("scheme") == "http"
    if endpoint is not None:
        endpoint = endpoint if "://" in endpoint else f"{'http' if insecure else 'https'}://{endpoint}"
        told[_ENDPOINT_SETTING[kind]] = endpoint
    if insecure or (endpoint or "").startswith("http://"):
        told["allow_http"] = "true"
    return told


def with_settings_of(public: str, address: str) -> str:
    """An address without secrets, reached as `address` is, if both are on the same kind of store.

    >>> with_settings_of("s3://out/x", "s3a://key:secret@bucket/ck?region=here")
    's3://key:secret@out/x?region=here'
    >>> with_settings_of("/data/out", "s3://bucket/ck"), with_settings_of("s3://out/x", "/data/ck")
    ('/data/out', 's3://out/x')
    """
    theirs, own = urlsplit(public), urlsplit(address)
    kind = STORE_SCHEMES.get(theirs.scheme)
    if kind is None or STORE_SCHEMES.get(own.scheme) != kind:
        return public
    who, at, _ = own.netloc.rpartition("@")
    netloc = f"{who}{at}{theirs.netloc}" if ":" in who else theirs.netloc  # of Azure, the container stands there
    return theirs._replace(netloc=netloc, query=own.query).geturl()


def for_spark(address: str) -> str:
    """An address as Spark's own readers and writers take it.

    >>> for_spark("s3://k:secret@bucket/in?region=here"), for_spark("dbfs:/in"), for_spark("hdfs://node:8020/in")
    ('s3a://bucket/in', 'dbfs:/in', 'hdfs://node:8020/in')
    """
    return parse_address(address).hadoop if _split(address).scheme in STORE_SCHEMES else address


def public_address(address: str) -> str:
    """An address without what may be secret or is about how to reach it, and without a slash at its end.

    >>> public_address("s3://key:secret@bucket/in/?region=here"), public_address("hdfs://node:8020/in")
    ('s3://bucket/in', 'hdfs://node:8020/in')
    """
    parts = _split(address)
    who, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{host if ':' in who else who + at + host}{parts.path}".rstrip("/")


def secret_parts(address: str) -> tuple[str, ...]:
    """What of an address must not be shown: a password, and the values of options that may be secret.

    >>> secret_parts("s3://key:s%2Fcret@bucket/in?region=here&session_token=abc")
    ('s/cret', 'abc')
    >>> secret_parts("/data/in"), secret_parts("abfss://box@acme.dfs.core.windows.net/x")
    ((), ())
    """
    if is_local(address):
        return ()
    parts = _split(address)
    who = parts.netloc.rpartition("@")[0]
    harmless = {*_OPEN_OPTIONS, *_ENDPOINTS, *_REACH}
    options = [value for name, value in parse_qsl(parts.query) if name not in harmless]
    return (*([unquote(who.partition(":")[2])] if ":" in who else []), *options)
