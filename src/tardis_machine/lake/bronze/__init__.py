"""Bus to Bronze: the ingest job, its rows, and the decoding of envelopes."""
