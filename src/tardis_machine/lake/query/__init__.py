"""SQL, inventory and quality checks over the tables, with DuckDB and without Spark."""
