"""Benchmarks: each module prints rates or ratios and has a `main`."""
