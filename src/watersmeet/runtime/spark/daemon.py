"""Spark's daemon, which forks the Python workers, but for one thing: a worker whose task was given up ends in silence.

Through a Unix domain socket a worker learns at once that nobody reads its results any more, and Spark's own daemon
prints a traceback for it, on the terminal of whoever runs the job. Why the task was given up is told elsewhere.
A session names this module in `spark.python.daemon.module`; Spark runs it with the module of the workers as argument.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    try:
        code: int = _worker(sock, authenticated)
    except BrokenPipeError:
        return 1  # so that the process ends
    return code


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
