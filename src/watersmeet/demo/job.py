"""The demo's job: the query that motivates the papers, over the demo's streams.

[Liu06] (section 1) and [Liu05] (section 1.1, figure 1) begin with a real-time integration server for financial
analysts: "stock prices, volumes and external reviews are continuously sent to the integration server", which must join
them as fast as possible, so that decisions rest on what is known now. The papers give no query text. Ours joins the
three on the stock, each within its window, where a reviewer thinks the stock worth more than its price.
"""

from __future__ import annotations

import json
from pathlib import Path

from watersmeet.config import Job, parse_job
from watersmeet.demo.streams import SCHEMAS

QUERY = """\
SELECT p.symbol, p.price, v.shares, r.author, r.target, p.ts AS priced, v.ts AS traded, r.ts AS reviewed
FROM prices p [RANGE 1 SECOND], volumes v [RANGE 1 SECOND], reviews r [RANGE 10 SECONDS]
WHERE p.symbol = v.symbol AND v.symbol = r.symbol AND r.target > p.price
"""


def job_text(folder: Path, runtime: str) -> str:
    """The job file of the demo in `folder`."""
    lines = [f'query = """\n{QUERY}"""', ""]
    for name, schema in SCHEMAS.items():
        lines += [
            f"[streams.{name}]",
            'format = "parquet"',
            f"path = {_quoted(folder / 'in' / name)}",
            f'schema = "{schema}"',
            'lateness = "1 second"',
            "",
        ]
    lines += ["[sink]", f"path = {_quoted(folder / 'out')}", ""]
    lines += ["[run]", f'runtime = "{runtime}"', f"checkpoint = {_quoted(folder / 'ck')}", 'trigger = "1 second"']
    return "\n".join(lines) + "\n"


def write_job(folder: Path, runtime: str) -> Job:
    """Write the job file `job.toml` into `folder`, and read it."""
    text = job_text(folder, runtime)
    path = folder / "job.toml"
    path.write_text(text, encoding="utf-8")
    return parse_job(text, str(path))


def _quoted(path: Path) -> str:
    return json.dumps(str(path), ensure_ascii=False)  # a JSON string is a TOML string
