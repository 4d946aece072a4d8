"""Bus to Bronze: the job and its rows."""
