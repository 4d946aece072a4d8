"""Settings, clients and errors of the buses, shared by sinks and the readers of the lake."""
