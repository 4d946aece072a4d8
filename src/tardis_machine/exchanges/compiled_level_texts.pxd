"""What `compiled_messages` calls for the fields of a message that have levels."""

from tardis_machine.exchanges.decoding.json_text cimport Span, Text


cdef enum Form:
    PAIRS    # ["61000.5","2"] or [61000.5,2]
    ACTIONS  # ["new",61000.5,2]
    SIDES    # ["buy","61000.5","2"]


cdef object rewritten_levels(Text *text, Form form, Span *buyers)
