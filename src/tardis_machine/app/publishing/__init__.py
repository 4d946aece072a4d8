"""The publisher process, who hands it records, and the jobs of `publish`."""
