"""Writes down the classes that a JVM loads for a query on Spark, so that those of tests load them all at once.

    python tools/share_classes.py FILE

A JVM of a test lives for seconds, of which it spends half on finding, checking and linking the same thousands of
classes. With the file (`-XX:SharedArchiveFile`, see tests/conftest.py) one starts in some 60 % of the time. A JVM that
cannot use it, being another, does without.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"


def run_query(folder: Path) -> None:
    """What most tests do: files in, a join, files out, and a look at them."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    import watersmeet as wm

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    streams = {}
    for name in ("A", "B", "C"):
        (folder / name).mkdir()
        for file in range(2):
            times = pa.array(range(50 * file, 50 * file + 50), pa.timestamp("us", "UTC"))
            pq.write_table(pa.table({"k": list(range(50)), "ts": times}), folder / name / f"{file}.parquet")
        reader = session.readStream.schema("k BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
        streams[name] = reader.parquet(str(folder / name))
    text = "SELECT A.k FROM A [RANGE 1 HOUR], B [RANGE 1 HOUR], C [RANGE 1 HOUR] WHERE A.k = B.k AND B.k = C.k"
    writer = (
        wm.sql(text, streams=streams, time="ts", lateness="1 hour")
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
    )
    writer = writer.option("plan", "((A B) C)").option("checkpointLocation", str(folder / "ck"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert session.read.parquet(str(folder / "out")).count() == 400
    session.stop()


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = f"{OPTIONS} -XX:ArchiveClassesAtExit={target}"
        command = [sys.executable, __file__, "--query", folder]
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": options, "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not target.exists():
        sys.exit(f"The classes of Spark cannot be shared, and tests take longer:\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    if sys.argv[1] == "--query":
        run_query(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]).absolute())
