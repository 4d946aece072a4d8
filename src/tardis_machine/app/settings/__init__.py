"""Declared options become typed settings: from flags, environment, files or keywords."""
