"""Runs of one job on Spark: each a driver of its own, by the command line, or with a function of `foreachBatch`.

Files arrive while no driver is under way, so that which rows are late follows from the order of arrival alone, as on
the local runtime: a folder is not listed in one moment. A run therefore works through what has arrived, `max_files` of
each stream in a batch, and what is done to it meanwhile is timed by the versions that it has committed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from chaos import TESTS
from chaos.ground import Ground, Places
from chaos.mortal import Blow
from chaos.shapes import Shape
from chaos.shelves import CallShelf
from chaos.spark.driver import Driver
from chaos.wrong import WrongError
from function_sink import calls
from watersmeet.cli.run import TERMINATED
from watersmeet.config import Job, load_job
from watersmeet.faults import VARIABLE
from watersmeet.lang.binder import bind
from watersmeet.runtime.opening import open_run
from watersmeet.runtime.outputs import Outputs
from watersmeet.state.folders import CheckpointFolders

RUN_SECONDS = 600  # that a run may take on a machine that is busy; one takes some ten
COMMAND_SECONDS = 120
WORKER_DIED = "a Python worker of Spark died"  # what a run says, if a fault of a task has ended it
WANTED = "this call was to fail"  # what the function says, if it was told to raise
FUNCTION_FAILED = 3  # the exit code of tests/function_sink.py


class SparkWorld(Ground):
    """`conf` are settings of Spark; `executors` lists the processes of a cluster that tasks run in.

    `hold_up` has one of them stand still for the time being.
    """

    def __init__(
        self,
        shape: Shape,
        home: Path,
        inputs: Path,
        master: str,
        conf: Mapping[str, str],
        function: bool,
        executors: Callable[[], list[int]] = list,
        hold_up: Callable[[int], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        run = home / "run"
        run.mkdir(parents=True)
        results = CallShelf(run, shape.outputs) if function else None
        super().__init__(shape, run, inputs, Places.on_disk(run), results)
        self.master = master
        self.executors = executors
        self.hold_up = hold_up
        self.function = function
        self._conf = dict(conf)
        self._blow: Blow | None = None
        self._marker: Path | None = None
        self._drivers: list[Driver] = []  # that may be at work
        self.job_file = run / "job.toml"
        self.counts["histories with foreachBatch" if function else "histories with files"] += 1

    # --- runs --------------------------------------------------------------------------------------------------------

    def start(self, endless: bool = False, fail: int | None = None) -> Driver:
        """A driver over all that has arrived; `endless`: it waits for more. The function raises in its call `fail`."""
        self.counts["runs"] += 1
        self._write_job()
        if self.function:
            assert not endless, "a run with a function goes to the end of its input"
            command = [sys.executable, str(TESTS / "function_sink.py"), *self._function_options(fail)]
        else:
            command = [sys.executable, "-m", "watersmeet", "run", "job.toml", "--json", *self._set_options(endless)]
        where = self.feed.folder / "out.jsonl", self.feed.folder / "err.txt"
        return self._driver(command, *where)

    def start_beside(self) -> Driver:
        """Another driver of the same job, while one is under way."""
        command = [sys.executable, "-m", "watersmeet", "run", "job.toml", "--json", *self._set_options(False)]
        where = self.feed.folder / "out-2.jsonl", self.feed.folder / "err-2.txt"
        return self._driver(command, *where)

    def _driver(self, command: Sequence[str], out: Path, err: Path) -> Driver:
        self._drivers = [driver for driver in self._drivers if not driver.ended]
        self._drivers.append(Driver(command, self.home, self._environment(), out, err))
        return self._drivers[-1]

    def end_processes(self) -> None:
        for driver in self._drivers:
            driver.kill()

    def finish(self, driver: Driver) -> str:
        """Wait for the end of a driver, and judge how it ended and what it left: a word."""
        code = driver.end(RUN_SECONDS)
        for event in driver.events():
            self.hear(event)
        if self.function:
            self.counts["batches"] += len(calls(self.home)) - self.counts["calls"]
            self.counts["calls"] = len(calls(self.home))
        said, fired = driver.said(), self._take_blow()
        excused, self.excused = self.excused, []
        if "Traceback" in said and not self.function:
            raise WrongError(f"an error of no kind that users should see: {said[-1500:]}")
        match code:
            case 0:
                ended = "ended"
            case _ if code == -signal.SIGKILL and (fired or driver.asked == signal.SIGKILL):
                ended = "died"
            case _ if code == TERMINATED and driver.asked == signal.SIGTERM:
                ended = "stopped"
            case _ if fired and WORKER_DIED in said:
                ended = "failed"
            case _ if any(text in said for text in excused):
                ended = "ended with the error that was asked for"
            case _:
                raise WrongError(f"a run ended with code {code}: {said[-1500:]}")
        self.judge.look()
        return ended

    def run_to_end(self) -> str:
        return self.finish(self.start())

    def version(self) -> int:
        """The newest version that was committed; -1 if there is none."""
        folder = self.home / "ck" / "state" / "versions"
        names = os.listdir(folder) if folder.is_dir() else []
        return max((int(name[:-5]) for name in names if re.fullmatch(r"\d+\.json", name)), default=-1)

    def wait_for_versions(self, driver: Driver, versions: int, seconds: float = RUN_SECONDS) -> bool:
        """Until the driver has committed so many; whether it has, and is alive."""
        target = self.version() + versions
        return driver.wait_until(lambda: self.version() >= target, seconds)

    def command(self, *arguments: str) -> str:
        """`watersmeet ARGUMENTS`, a process of its own."""
        self.counts["commands"] += 1
        done = subprocess.run(
            [sys.executable, "-m", "watersmeet", *arguments],
            cwd=self.home,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        fired = self._take_blow()
        excused, self.excused = self.excused, []
        if done.returncode == -signal.SIGKILL and fired:
            ended = "died"
        elif done.returncode and any(text in done.stderr for text in excused):
            ended = "refused"
        elif done.returncode:
            raise WrongError(f"watersmeet {' '.join(arguments)}: code {done.returncode}, {done.stderr}")
        else:
            ended = "ended"
        self.judge.look()
        return ended

    # --- faults ------------------------------------------------------------------------------------------------------

    def deal(self, blow: Blow) -> None:
        assert blow.point, "what happens to a real process happens at a point, or by a signal"
        self._blow = blow
        self._marker = self.feed.folder / f"reached-{self.counts['runs']}-{self.counts['commands']}-{blow.point}"

    def _take_blow(self) -> bool:
        """Whether the blow that was dealt has fallen; it falls no more."""
        blow, self._blow = self._blow, None
        if blow is None or self._marker is None or not self._marker.exists():
            return False
        self.came_to_pass(blow.name)
        return True

    def forget_log(self) -> None:
        pass

    # --- the job -----------------------------------------------------------------------------------------------------

    def _write_job(self) -> None:
        lines = ["[spark]", f'master = "{self.master}"', '"spark.sql.shuffle.partitions" = 2']
        lines += [f'"{name}" = "{value}"' for name, value in self._conf.items()]
        text = self.job_text("spark", lines)
        text = text.replace("maxFilesPerTrigger = 1", f"maxFilesPerTrigger = {self.settings.max_files}")
        self.job_file.write_text(text)

    def _set_options(self, endless: bool) -> list[str]:
        chosen = self.overrides()
        chosen += ['run.trigger="1 second"'] if endless else []
        return [part for setting in chosen for part in ("--set", setting)]

    def _function_options(self, fail: int | None) -> list[str]:
        settings = self.settings
        asked = {
            "fail": fail,
            "slots": settings.slots,
            "memory": settings.memory,
            "spill": settings.spill,
            "merge": settings.merge,
            "keepVersions": settings.keep_versions,
            "latePath": self.places.lates[0],
            "master": self.master,
            **self._conf,
        }
        return [f"{name}={value}" for name, value in asked.items() if value]

    def _environment(self) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        if self._blow is not None:
            environment[VARIABLE] = f"{self._blow.point}:{self._blow.count}@{self._marker}"
        return environment

    def job(self) -> Job:
        return load_job(self.job_file, self.overrides())

    def check_tidy(self) -> None:
        """Without a JVM: open and close the checkpoint, which collects."""
        if not self.function:
            job = self.job()
            outputs = Outputs.of("parquet", job.sink.path, job.sink.late)
            folders = CheckpointFolders(self.places.checkpoint)
            open_run(bind(job.query, job.streams()), job.settings, folders, outputs).close()
            self.check_no_strays()
