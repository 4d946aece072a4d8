"""`tardis-machine bus`: what waits on disk for event buses, one file per command."""
