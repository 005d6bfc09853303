"""`watersmeet explain`: the plan that a job would run. Starts no JVM and reads no source."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from watersmeet.config import load_job
from watersmeet.lang.binder import bind
from watersmeet.plan.explain import explain_json, explain_text
from watersmeet.plan.layout import lay_out
from watersmeet.runtime.checkpoint import Layout
from watersmeet.runtime.planning import plan_run

if TYPE_CHECKING:
    from watersmeet.cli.terminal import SubParsers


def add_parser(subparsers: SubParsers) -> None:
    parser = subparsers.add_parser("explain", help="show the plan of a job, without running it")
    parser.add_argument("job", help="the TOML job file")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="replace a setting of the job")
    parser.set_defaults(run=explain)


def explain(args: argparse.Namespace) -> int:
    job = load_job(args.job, args.set)
    query = bind(job.query, job.streams())
    layout = None if job.run.checkpoint is None else Layout(job.run.checkpoint)
    chosen = plan_run(query, job.adapt.plan, job.stats, job.run.memory, layout)
    plan = lay_out(query, chosen.tree, chosen.orders)
    if args.json:
        print(json.dumps(explain_json(plan, chosen.reason, considered=chosen.alternatives), indent=2))
    else:
        print(explain_text(plan, chosen.reason, considered=chosen.alternatives), end="")
    return 0
