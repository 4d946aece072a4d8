"""Silver rows to Gold rows: one module per table, pure functions on DataFrames."""
