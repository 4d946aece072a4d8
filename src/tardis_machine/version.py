"""The version of this distribution, declared once."""

__version__ = "0.1.0"
