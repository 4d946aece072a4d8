"""`tardis-machine lake …`: one file per command."""
