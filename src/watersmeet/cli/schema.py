"""`watersmeet schema`: the JSON Schema of job files, which editors check and complete them by."""

from __future__ import annotations

import argparse
import json

from watersmeet.settings.schema import job_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=schema)


def schema(args: argparse.Namespace) -> int:
    print(json.dumps(job_schema(), indent=2))
    return 0
