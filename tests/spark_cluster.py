"""A real standalone cluster of Spark on loopback: a master and its workers, ended by the ids of their processes.

Each worker has a loopback address of its own, as if it were a host: Spark has no second copy of a task run on the host
of the first, and prefers hosts. Executors can be killed and held up, with the Python processes of their tasks.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "org.apache.spark.deploy"
EXECUTOR = b"CoarseGrainedExecutorBackend"
START_SECONDS = 60


@dataclass(frozen=True)
class Cluster:
    address: str
    workers: tuple[int, ...]  # ids of processes

    def executors(self) -> list[int]:
        """The ids of the processes in which tasks run now: children of the workers."""
        return sorted(pid for pid, parent in _parents().items() if parent in self.workers and _is_executor(pid))

    @contextmanager
    def held_up(self, executor: int) -> Iterator[None]:
        """The executor and all that it has started stand still meanwhile, as on a host that has frozen."""
        held: list[int] = []
        try:
            while found := [pid for pid in _family(executor) if pid not in held]:  # some start before they are stopped
                for pid in found:
                    held.append(pid)
                    _send(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in held:
                _send(pid, signal.SIGCONT)


# What a driver on this machine needs to be told, for it to have an executor with one core on each worker.
DRIVER_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
}


@contextmanager
def standalone_cluster(folder: Path, workers: int = 1, cores: int = 2, memory: str = "1g") -> Iterator[Cluster]:
    """A cluster whose workers have so many cores each; logs and work folders are in `folder`."""
    import pyspark

    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    commands = [("127.0.0.1", [f"{PACKAGE}.master.Master", "--port", str(port)])]
    for number in range(workers):
        work = ["--cores", str(cores), "--memory", memory, "--work-dir", str(folder / f"work-{number}")]
        commands.append((f"127.0.0.{number + 1}", [f"{PACKAGE}.worker.Worker", address, *work]))
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "512m"}
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number, (host, command) in enumerate(commands):
            log = folder / f"daemon-{number}.log"
            with log.open("wb") as sink:
                launcher = str(home / "bin" / "spark-class")
                whole = [launcher, *command, "--host", host, "--webui-port", "0"]
                at_host = {**environment, "SPARK_LOCAL_IP": host}
                processes.append(subprocess.Popen(whole, env=at_host, stdout=sink, stderr=sink))
            _wait_for("I have been elected leader" if number == 0 else "registered with master", log)
        yield Cluster(address, tuple(process.pid for process in processes[1:]))
    finally:
        executors = Cluster(address, tuple(process.pid for process in processes[1:])).executors()
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)
        for pid in executors:  # which workers end; a worker that was killed has left its own
            if _is_executor(pid):
                _send(pid, signal.SIGKILL)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _wait_for(text: str, log: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends:
        if text in log.read_text(errors="replace"):
            return
        time.sleep(0.2)
    raise AssertionError(f"the daemon did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _parents() -> dict[int, int]:
    """The parent of each process, by id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            if fields[0] != "Z":
                found[int(entry.name)] = int(fields[1])
    return found


def _family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    parents = _parents()
    found = [pid] if pid in parents else []
    for member in found:
        found += [child for child, parent in parents.items() if parent == member]
    return found


def _is_executor(pid: int) -> bool:
    try:
        return EXECUTOR in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
