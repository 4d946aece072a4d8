"""Derived data, pure: order books, snapshots, bars, and the merge of several streams."""
