"""Addresses: every spelling that users have, and what is told to whom."""

from __future__ import annotations

import pytest

from watersmeet.errors import AddressError
from watersmeet.state.addresses import for_spark, parse_address
from watersmeet.state.files import Folder


@pytest.mark.parametrize(
    "written, public, spark",
    [
        ("s3://b/x/y", "s3://b/x/y", "s3a://b/x/y"),
        ("s3a://b/x/y/", "s3://b/x/y", "s3a://b/x/y"),
        ("s3n://k:s@b/x", "s3://b/x", "s3a://b/x"),
        ("s3://b", "s3://b", "s3a://b"),
        ("s3://b/x?region=r&endpoint_override=h:1&scheme=http", "s3://b/x", "s3a://b/x"),
        ("gs://b/x?anonymous=true", "gs://b/x", "gs://b/x"),
        ("abfss://c@acme.dfs.core.windows.net/x", *["abfss://c@acme.dfs.core.windows.net/x"] * 2),
        ("abfs://c@acme.dfs.core.windows.net/x", *["abfss://c@acme.dfs.core.windows.net/x"] * 2),
        ("az://c/x?account_name=acme", *["abfss://c@acme.dfs.core.windows.net/x"] * 2),
        ("az://c/x", "az://c/x", "az://c/x"),
    ],
)
def test_stores(written: str, public: str, spark: str) -> None:
    folder = Folder(written)
    assert (folder.local, folder.path(), folder.spark_path(), for_spark(written)) == (False, public, spark, spark)
    assert (folder.path("n"), folder.spark_path("n")) == (f"{public}/n", f"{spark}/n")
    assert folder.sub("state").path("n") == f"{public}/state/n"
    assert parse_address(folder.sub("s").address).settings == parse_address(written).settings


@pytest.mark.parametrize(
    "written, path, spark",
    [
        ("/data/ck", "/data/ck", "/data/ck"),
        ("file:/data/ck", "/data/ck", "/data/ck"),
        ("file:///data/ck/", "/data/ck", "/data/ck"),
        ("dbfs:/data/ck", "/dbfs/data/ck", "dbfs:/data/ck"),
    ],
)
def test_this_machine(written: str, path: str, spark: str) -> None:
    folder = Folder(written)
    assert (folder.local, folder.path(), folder.spark_path()) == (True, path, spark)
    assert (folder.sub("s").path("n"), folder.sub("s").spark_path()) == (f"{path}/s/n", f"{spark}/s")


@pytest.mark.parametrize(
    "option", ["allow_http=true&endpoint=h:9", "endpoint_url=http://h:9", "scheme=http&endpoint=h:9"]
)
def test_an_endpoint_in_any_words(option: str) -> None:
    assert dict(parse_address(f"s3://b?{option}").settings) == {"endpoint": "http://h:9", "allow_http": "true"}


def test_secrets_are_in_no_text() -> None:
    written = "s3a://ident:verysecret@b/x?session_token=alsosecret"
    folder = Folder(written)
    shown = [repr(folder), folder.path(), folder.spark_path(), repr(parse_address(written)), repr(folder.sub("s"))]
    assert not [text for text in shown if "secret" in text or "ident" in text]
    with pytest.raises(AddressError) as caught:
        parse_address(f"{written}&regoin=r")
    assert caught.value.primary == 'unknown option "regoin" in an address'
    assert caught.value.hint == 'Did you mean "region"?'
    assert "verysecret" not in str(caught.value)
    assert "alsosecret" not in str(caught.value)


@pytest.mark.parametrize("written", ["hdfs://node:8020/ck", "ftp://key:verysecret@host/ck"])
def test_what_is_not_supported_says_what_is(written: str) -> None:
    with pytest.raises(AddressError, match="addresses are not supported for checkpoints and outputs") as caught:
        Folder(written)
    assert "Supported are local and shared folders, s3://" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_no_bucket() -> None:
    with pytest.raises(AddressError, match="names no bucket"):
        Folder("s3:///ck")
