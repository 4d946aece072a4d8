"""The composition root: settings become running objects here."""
