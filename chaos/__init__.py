"""The chaos campaign: long random histories of runs that go wrong, judged row by row against a closed form.

`python -m chaos --help` says how to run it; docs/testing.md what it found. A *history* is a list of actions, a pure
function of its seed (`history.py`). A *world* (`world.py`) carries the actions out on one job, notes them down in a
journal, and has every delivered row judged (`judge.py`) against what the laws of the streams say (`shapes.py`,
`feed.py`), which know nothing of the product. The kinds of actions are visible tuples in `kinds.py`; each family has a
module.

It is no part of the product, and stands on the tools of the tests: the recorder of disks, the S3 server, processes that
may die.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
if str(TESTS) not in sys.path:
    sys.path.append(str(TESTS))

# Plans are chosen by what joins cost on the machine; histories repeat on another one.
os.environ["WATERSMEET_COSTS"] = str(TESTS / "costs.json")
