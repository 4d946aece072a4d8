"""Small text files below the root of a lake, wherever Spark can write."""

from typing import Any

from pyspark.sql import SparkSession


def read_text(spark: SparkSession, path: str) -> str | None:
    """Return the content of a file; None when there is no such file."""
    file, files = _located(spark, path)
    if not files.exists(file):
        return None
    stream = files.open(file)
    try:
        return bytes(stream.readAllBytes()).decode()
    finally:
        stream.close()


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Write a file, or replace it."""
    file, files = _located(spark, path)
    stream = files.create(file, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def exists(spark: SparkSession, path: str) -> bool:
    """Say whether there is a file or folder."""
    file, files = _located(spark, path)
    return bool(files.exists(file))


def _located(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return a path and its file system, as the tables of the lake reach it."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    file = jvm.org.apache.hadoop.fs.Path(path)
    return file, file.getFileSystem(session.sessionState().newHadoopConf())
