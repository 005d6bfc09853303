"""An S3 server as a process of its own: moto, which keeps objects in memory. Prints its port, and serves until killed.

It carries out one request after the other, so that a conditional write is as atomic as on the real thing.
"""

from __future__ import annotations

import logging

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
    print(server.server_port, flush=True)
    server.serve_forever()
