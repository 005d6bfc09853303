"""A real S3 server on loopback for tests, and a proxy in front of it that counts requests, delays and breaks them."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import obstore
from obstore.store import S3Store

# What may become of a request: the name of an accident, by method and path. None: nothing.
Accident = Callable[[str, str], str | None]
FAIL = "answered with 500, and not carried out"
FAIL_AFTER = "carried out, and answered with 500"
DROP = "dropped, and not carried out"
DROP_AFTER = "carried out, and the connection dropped"
SLOW = "carried out after a while"
SLOW_SECONDS = 0.3


@dataclass
class S3Server:
    """Where a server, or a proxy of one, listens. Tests share a server, and each has a bucket of its own."""

    port: int

    def bucket(self) -> str:
        """A new bucket."""
        name = f"b{uuid.uuid4().hex[:12]}"
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}/{name}", method="PUT"))
        return name

    def address(self, place: str, scheme: str = "s3", **options: str) -> str:
        """The address of a bucket, or of a key in it."""
        reach = {"endpoint_override": f"127.0.0.1:{self.port}", "scheme": "http", "region": "us-east-1", **options}
        return f"{scheme}://key:verysecret@{place}?{urlencode(reach)}"

    def client(self, bucket: str) -> Any:
        """A client of nobody but the test."""
        config: dict[str, Any] = {"endpoint": f"http://127.0.0.1:{self.port}", "region": "us-east-1"}
        config |= {"access_key_id": "key", "secret_access_key": "verysecret"}
        return S3Store(bucket, config=config, client_options={"allow_http": True})

    def objects(self, place: str) -> dict[str, bytes]:
        """All objects under a bucket, or a key in it, by what comes after it."""
        bucket, _, key = place.partition("/")
        client = self.client(bucket)
        found = [entry["path"] for chunk in obstore.list(client, key or None) for entry in chunk]
        return {path[len(key) :].lstrip("/"): bytes(obstore.get(client, path).bytes()) for path in found}


@contextmanager
def s3_server() -> Iterator[S3Server]:
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("s3_process.py"))], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield S3Server(int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()


@dataclass
class S3Proxy(S3Server):
    accident: Accident = lambda method, path: None
    requests: Counter[str] = field(default_factory=Counter)  # by kind
    log: list[str] = field(default_factory=list)


@contextmanager
def s3_proxy(server: S3Server) -> Iterator[S3Proxy]:
    """A proxy of the server. Its `accident` says what becomes of each request, and its `requests` are counted."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.read_body()
            proxy.requests[self.kind()] += 1
            proxy.log.append(f"{self.command} {self.path}")
            accident = proxy.accident(self.command, self.path)
            if accident == SLOW:
                time.sleep(SLOW_SECONDS)
            if accident == FAIL:
                self.send_reply(500, [], b"")
                return
            if accident == DROP:
                self.close_connection = True
                return
            upstream = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            left_out = ("connection", "transfer-encoding")  # the body is sent in one piece
            with_us = {name: value for name, value in self.headers.items() if name.lower() not in left_out}
            upstream.request(self.command, self.path, body, with_us)
            reply = upstream.getresponse()
            content = reply.read()
            upstream.close()
            if accident == DROP_AFTER:
                self.close_connection = True
            elif accident == FAIL_AFTER:
                self.send_reply(500, [], b"")
            else:
                self.send_reply(reply.status, reply.getheaders(), content)

        def read_body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass  # what follows the last piece
            return b"".join(pieces)

        def kind(self) -> str:
            if self.command == "GET":
                return "LIST" if "list-type=" in self.path else "GET"
            return "COPY" if "x-amz-copy-source" in self.headers else self.command

        def send_reply(self, code: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(code)
            for name, value in headers:
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            length = next((v for n, v in headers if n.lower() == "content-length"), None)
            self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that was killed
                super().handle_error(request, client_address)

    listening = Server(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    proxy = S3Proxy(listening.server_port)
    threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield proxy
    finally:
        listening.shutdown()
        listening.server_close()
