"""An S3 server that only reads: the buckets are the folders of a folder on this disk. Enough for pyarrow's client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@contextmanager
def small_s3(root: Path) -> Iterator[str]:
    """Serves `root` for the time of the context; gives the query that leads an s3 address to it."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            parts = urlsplit(self.path)
            path = root / unquote(parts.path).strip("/")
            query = parse_qs(parts.query)
            if "list-type" in query:
                self.reply(200, listing(path, query.get("prefix", [""])[0]))
            elif path.is_file():
                self.send_file(path)
            else:
                self.reply(404, b"")

        def send_file(self, path: Path) -> None:
            data, modified = path.read_bytes(), formatdate(path.stat().st_mtime, usegmt=True)
            asked = self.headers.get("Range")
            if asked is None or self.command == "HEAD":
                self.reply(200, data, {"Last-Modified": modified})
                return
            first, last = map(int, asked.removeprefix("bytes=").split("-"))
            part = data[first : last + 1]
            place = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
            self.reply(206, part, {"Last-Modified": modified, "Content-Range": place})

        def reply(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(code)
            for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"scheme=http&endpoint_override=127.0.0.1:{server.server_port}&region=here"
    finally:
        server.shutdown()
        server.server_close()


def listing(bucket: Path, prefix: str) -> bytes:
    """The answer to ListObjectsV2: every object that begins with `prefix`, whatever the delimiter."""
    found = sorted(path for path in bucket.rglob("*") if path.is_file())
    entries = []
    for path in found:
        key = str(path.relative_to(bucket))
        if key.startswith(prefix):
            time = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            size = path.stat().st_size
            entries.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{time}</LastModified><Size>{size}</Size></Contents>"
            )
    count = f"<KeyCount>{len(entries)}</KeyCount><IsTruncated>false</IsTruncated>"
    return f"<?xml version='1.0'?><ListBucketResult>{count}{''.join(entries)}</ListBucketResult>".encode()
