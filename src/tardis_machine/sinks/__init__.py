"""Where envelopes go: one delivery pipeline, one thin module per bus."""
