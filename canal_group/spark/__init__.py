"""The merged stream as a Python data source of Spark, exactly once.

    from canal_group.spark import CanalGroupDataSource

    spark.dataSource.register(CanalGroupDataSource)
    stream = spark.readStream.format("canal_group").options(gateway=..., destination=..., table=...).load()

Needs Spark 4.2. Nothing else of `canal_group` imports this package: pyspark takes seconds to import.
"""

from canal_group.spark.source import CanalGroupDataSource

__all__ = ["CanalGroupDataSource"]
