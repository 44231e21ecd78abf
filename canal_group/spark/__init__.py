"""The merged stream as a Python data source of Spark, exactly once.

    from canal_group.spark import CanalGroupDataSource

    spark.dataSource.register(CanalGroupDataSource)
    stream = spark.readStream.format("canal_group").options(gateway=..., destination=..., table=...).load()

`read_stream` and `read` return the same rows for less. `run_evolving` runs a query that gains the columns
that its table gains. Needs Spark 4.2, `pip install 'canal-group[spark]'`. Nothing else of `canal_group`
imports this package: pyspark takes seconds to import.
"""

from canal_group.extras import needed_by

with needed_by("canal_group.spark", "spark"):
    from canal_group.spark.evolving import RESTARTS_MAX, run_evolving
    from canal_group.spark.frames import read, read_stream
    from canal_group.spark.source import CanalGroupDataSource

__all__ = ["RESTARTS_MAX", "CanalGroupDataSource", "read", "read_stream", "run_evolving"]
