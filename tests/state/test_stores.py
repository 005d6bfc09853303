"""Folders on an object store: one creator of a name wins, whatever goes wrong on the way, and errors are ours."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from object_server import DROP, DROP_AFTER, FAIL, FAIL_AFTER, SLOW, S3Proxy, S3Server, s3_proxy
from watersmeet.errors import AddressError, ResourceError, StateConflictError
from watersmeet.state.files import Folder

CREATORS, ROUNDS = 8, 20


def create(address: str, number: int, start: threading.Barrier, won: multiprocessing.Queue[tuple[int, int]]) -> None:
    folder = Folder(address)
    for round_ in range(ROUNDS):
        start.wait()
        try:
            folder.put_if_absent(f"{round_:020d}.json", b"%d" % number * 1000)
            won.put((round_, number))
        except StateConflictError:
            pass


@pytest.mark.parametrize("place", ["store", "shared folder"])
def test_of_eight_processes_one_creates_each_of_twenty(place: str, s3: S3Server, tmp_path: Path) -> None:
    address = s3.address(f"{s3.bucket()}/versions") if place == "store" else str(tmp_path)
    processes = multiprocessing.get_context("spawn")
    start, won = processes.Barrier(CREATORS), processes.Queue()
    creators = [processes.Process(target=create, args=(address, n, start, won)) for n in range(CREATORS)]
    for creator in creators:
        creator.start()
    winners = sorted(won.get(timeout=60) for _ in range(ROUNDS))
    for creator in creators:
        creator.join(60)
    assert won.empty()
    assert [round_ for round_, _ in winners] == list(range(ROUNDS))
    folder = Folder(address)
    assert len(folder.names()) == ROUNDS
    for round_, number in winners:
        assert folder.read(f"{round_:020d}.json") == b"%d" % number * 1000


@pytest.fixture
def proxy(s3: S3Server):
    with s3_proxy(s3) as running:
        yield running


def happens_to(method: str, accident: str, times: int = 1):
    """The first requests of this method have the accident."""
    left = [times]

    def happen(found: str, path: str) -> str | None:
        if found != method or not left[0]:
            return None
        left[0] -= 1
        return accident

    return happen


@pytest.mark.parametrize("accident", [FAIL, FAIL_AFTER, DROP, DROP_AFTER, SLOW])
@pytest.mark.parametrize("times", [1, 3])
def test_a_creation_that_was_carried_out_is_known_for_ones_own(accident: str, times: int, proxy: S3Proxy) -> None:
    """The answer gets lost; the next try finds the name taken, by nobody else."""
    folder = Folder(proxy.address(f"{proxy.bucket()}/v"))
    proxy.accident = happens_to("PUT", accident, times)
    folder.put_if_absent("7", b"mine")
    proxy.accident = happens_to("PUT", accident, times)
    with pytest.raises(StateConflictError, match='"7" exists already'):
        folder.put_if_absent("7", b"another's")
    assert folder.read("7") == b"mine"


@pytest.mark.parametrize("accident", [FAIL, FAIL_AFTER, DROP, DROP_AFTER, SLOW])
def test_everything_else_is_tried_again(accident: str, proxy: S3Proxy, tmp_path: Path) -> None:
    folder = Folder(proxy.address(f"{proxy.bucket()}/v"), str(tmp_path))
    for method in ("PUT", "GET", "POST", "HEAD"):
        proxy.accident = happens_to(method, accident)
        folder.write("a", lambda sink: sink.write(b"content"))
        assert folder.read("a") == b"content"
        assert folder.exists("a")
        folder.move_out(["a"], folder.sub("out"))
        assert folder.sub("out").names() == ["a"]
        folder.sub("out").delete_all(["a"])
        assert folder.names() == []


# --- errors ----------------------------------------------------------------------------------------------------------


def refused(folder: Folder, kind: type[Exception]) -> str:
    """What every operation says, in the same words but for what it did."""
    operations = (
        lambda: folder.put_if_absent("a", b"x"),
        lambda: folder.write("a", lambda sink: sink.write(b"x")),
        folder.names,
        lambda: folder.read("a"),
        lambda: folder.exists("a"),
        lambda: folder.delete_all(["a"]),
    )
    said = ""
    for operation in operations:
        with pytest.raises(kind) as caught:
            operation()
        said = str(caught.value)
        assert "secret" not in said
    return said


def test_the_environment_says_how_to_reach_it(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the store's own tools have it."""
    values = {"ENDPOINT_URL": f"http://127.0.0.1:{s3.port}", "REGION": "here", "ACCESS_KEY_ID": "k"}
    for name, value in {**values, "SECRET_ACCESS_KEY": "verysecret"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    folder = Folder(f"s3://{s3.bucket()}/ck")
    folder.put_if_absent("a", b"x")
    assert folder.names() == ["a"]


def test_no_such_bucket(s3: S3Server, tmp_path: Path) -> None:
    folder = Folder(s3.address("nowhere/ck"), str(tmp_path))
    with pytest.raises(AddressError, match="there is no s3://nowhere"):
        folder.put_if_absent("a", b"x")
    for operation in (folder.names, lambda: folder.read("a")):
        with pytest.raises(AddressError, match="there is no s3://nowhere"):
            operation()


@pytest.mark.parametrize("code", [401, 403])
def test_no_access(code: int, tmp_path: Path) -> None:
    with answering(code) as port:
        told = refused(Folder(S3Server(port).address("b/ck"), str(tmp_path)), AddressError)
    assert told.startswith("error: no access to s3://b/ck")
    assert "Check the credentials" in told


def test_no_answer(tmp_path: Path) -> None:
    """Nobody listens there: it is given up in a bounded time."""
    started = time.monotonic()
    with pytest.raises(ResourceError, match="cannot list s3://b/ck") as caught:
        Folder(S3Server(1).address("b/ck")).names()
    assert time.monotonic() - started < 20
    assert "start the run again" in str(caught.value)
    assert "secret" not in str(caught.value)


def answering(code: int):
    """A server that answers everything with the same code."""
    import contextlib
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
            self.send_response_only(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

    @contextlib.contextmanager
    def serve():
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()

    return serve()


def test_a_store_that_passes_over_the_condition_is_refused(s3: S3Server, proxy: S3Proxy, monkeypatch) -> None:
    from watersmeet.state import stores

    folder = Folder(s3.address(f"{s3.bucket()}/state"))
    folder.check_creates()
    assert folder.names() == []
    monkeypatch.setattr(stores.StoreFolder, "create", lambda self, name, data: True)
    with pytest.raises(AddressError, match="does not refuse to create an object that exists"):
        folder.check_creates()


def test_without_the_package_it_says_what_to_install(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['obstore'] = None\n"
        "from watersmeet.errors import AddressError\n"
        "from watersmeet.state.files import Folder\n"
        "try: Folder('s3://k:verysecret@b/ck').names()\n"
        "except AddressError as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert told.stdout == (
        "error: s3 addresses need the package obstore\n"
        "detail: s3://b/ck is on an object store.\n"
        "hint: Install it with: pip install 'watersmeet[objectstore]'.\n"
    ), told.stderr
