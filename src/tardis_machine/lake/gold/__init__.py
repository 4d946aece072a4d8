"""Silver to Gold: the job, and one module per table with pure functions on DataFrames."""
