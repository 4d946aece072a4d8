"""Bronze to Silver: the refine job, the plan of a batch, and its rows."""
