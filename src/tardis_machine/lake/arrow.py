"""Arrow as the lake uses it: columns of any type.

The published stubs type every kernel for every array class, which no generic function over columns
can satisfy; here columns and kernels are untyped on purpose, and only here.
"""

from typing import Any, TypeAlias

import pyarrow.compute

Values: TypeAlias = Any
"""A pyarrow Array of any type."""

kernels: Any = pyarrow.compute
"""`pyarrow.compute`."""

arrow: Any = pyarrow
"""`pyarrow`, for functions that make arrays of a type given at run time."""
