"""Spark schemas, derived from the table declarations."""

from collections.abc import Mapping

from pyspark.sql import types as spark

from tardis_machine.lake.tables import Column, ColumnType, Table

_SPARK: Mapping[ColumnType, spark.DataType] = {
    ColumnType.STRING: spark.StringType(),
    ColumnType.INT: spark.IntegerType(),
    ColumnType.BIGINT: spark.LongType(),
    ColumnType.DOUBLE: spark.DoubleType(),
    ColumnType.BOOLEAN: spark.BooleanType(),
    ColumnType.DATE: spark.DateType(),
    ColumnType.TIMESTAMP: spark.TimestampType(),
    ColumnType.BINARY: spark.BinaryType(),
    ColumnType.DOUBLES: spark.ArrayType(spark.DoubleType()),
    ColumnType.STRINGS: spark.ArrayType(spark.StringType()),
}


def spark_schema(table: Table) -> spark.StructType:
    """Return the Spark schema of a table, with the meaning of each column as its comment."""
    return spark.StructType([spark_field(column) for column in table.columns])


def spark_field(column: Column) -> spark.StructField:
    """Return one column as a Spark field.

    Every column is nullable in Delta: required ones are checked before rows are written, and Delta
    cannot drop such a constraint later.
    """
    comment = f"{column.meaning} [{column.unit}]" if column.unit else column.meaning
    return spark.StructField(column.name, _SPARK[column.type], metadata={"comment": comment})
