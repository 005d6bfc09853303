"""Spark's chained stream-stream join with the RocksDB state store."""

from benchmarks.contenders.spark_native import PACKAGE, main

SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": f"{PACKAGE}.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}

if __name__ == "__main__":
    main(SETTINGS)
