"""One module per venue family: wire messages, mappers, filters, subscribe forms, feed."""
