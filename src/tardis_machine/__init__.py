"""Replay, stream, publish and lake tick-level crypto market data, locally."""
