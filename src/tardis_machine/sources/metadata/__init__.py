"""Metadata of the data API: what is known of instruments."""
