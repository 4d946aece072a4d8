"""Bronze to Silver: the job, its batches and its rows."""
