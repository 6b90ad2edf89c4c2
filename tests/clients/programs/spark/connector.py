"""Spark's own Kafka source and sink against a broker, in batches and as a stream.

    python connector.py ADDRESS TOPIC JARS CHECKPOINT

Writes a topic, reads it back, copies it by a stream into TOPIC-copy; prints what it saw as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

RECORDS = 200
RECORDS_PER_TRIGGER = 64


def main(address: str, topic: str, jars: str, checkpoint: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, Path(jars).glob("*.jar"))))
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )

    def source(reader: Any, name: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": address, "subscribe": name, "includeHeaders": "true"}
        return reader.format("kafka").options(startingOffsets="earliest", **options).load()

    rows = [
        (f"key {number}", f"value {number}" if number % 5 else None, [("n", b"%d" % number)])
        for number in range(RECORDS)
    ]
    schema = "key string, value string, headers array<struct<key:string,value:binary>>"
    sink = {"kafka.bootstrap.servers": address}
    frame = spark.createDataFrame(rows, schema)
    frame.write.format("kafka").options(topic=topic, **sink).save()
    query = (
        source(spark.readStream.option("maxOffsetsPerTrigger", RECORDS_PER_TRIGGER), topic)
        .selectExpr("key", "value", "headers", f"'{topic}-copy' as topic")
        .writeStream.format("kafka")
        .options(checkpointLocation=checkpoint, **sink)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    said = {"batches": [each["numInputRows"] for each in query.recentProgress]}
    for name in (topic, f"{topic}-copy"):
        said[name] = [
            [row.key.decode(), row.value and row.value.decode(), row.headers[0].value.decode()]
            for row in source(spark.read, name).orderBy("offset").collect()
        ]
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
