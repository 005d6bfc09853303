"""Spark's chained stream-stream join with its default state store, which holds all state in the JVM's heap."""

from benchmarks.contenders.spark_native import PACKAGE, main

SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": f"{PACKAGE}.HDFSBackedStateStoreProvider",
}

if __name__ == "__main__":
    main(SETTINGS)
