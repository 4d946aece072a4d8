"""Types of `compiled_book_snapshots.pyx`: the class has the same methods as its twin."""

from tardis_machine.computed.book_snapshots import BookSnapshots

class CompiledBookSnapshots(BookSnapshots): ...
