"""Questions to the tables, answered by DuckDB without Spark."""
