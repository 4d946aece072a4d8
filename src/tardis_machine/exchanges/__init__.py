"""Pure knowledge of venues: channels, message shapes, and how messages become records."""
