"""Spark and Arrow schemas, derived from the table declarations."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
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
_ARROW: Mapping[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT: pa.int32(),
    ColumnType.BIGINT: pa.int64(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.DATE: pa.date32(),
    ColumnType.TIMESTAMP: pa.timestamp("us", "UTC"),
    ColumnType.BINARY: pa.binary(),
    ColumnType.DOUBLES: pa.list_(pa.float64()),
    ColumnType.STRINGS: pa.list_(pa.string()),
}


def spark_schema(table: Table) -> spark.StructType:
    """Return the schema for Spark, with the meaning of each column as its comment."""
    return spark.StructType([spark_field(column) for column in table.columns])


def spark_field(column: Column) -> spark.StructField:
    """Return one column for Spark.

    Every column may be null there: a required one is checked before a row is written, and Delta
    refuses to relax a constraint later.
    """
    comment = f"{column.meaning} [{column.unit}]" if column.unit else column.meaning
    return spark.StructField(column.name, _SPARK[column.type], metadata={"comment": comment})


def arrow_schema(table: Table) -> pa.Schema:
    """Return the schema for Arrow."""
    return pa.schema([arrow_field(column) for column in table.columns])


def arrow_field(column: Column) -> "pa.Field[Any]":
    """Return one column for Arrow."""
    return pa.field(column.name, _ARROW[column.type])
