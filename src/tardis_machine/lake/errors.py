"""Errors of the lake.

The tree, below those of `model.errors`::

    SettingsError
    ├── JavaNotFoundError        no Java 17 or newer
    ├── JarsError                the jars for Delta and Kafka are not there
    └── QueryError               SQL that DuckDB refuses
    TardisMachineError
    └── LakeError                a table or a job is not in the state it must have
        ├── TableVersionError    a table was written by another version of this package
        └── DataLossError        the bus no longer holds what the next batch must read
"""

from tardis_machine.model.errors import SettingsError, TardisMachineError


class JavaNotFoundError(SettingsError):
    """There is no Java 17 or newer; the text says how to get one."""


class JarsError(SettingsError):
    """The jars for Delta and Kafka are missing; the text says how to get them."""


class QueryError(SettingsError):
    """DuckDB refuses the SQL; the text holds its reason."""


class LakeError(TardisMachineError):
    """A table or a job is not in the state it must have."""


class TableVersionError(LakeError):
    """A table was written by another version of this package."""


class DataLossError(LakeError):
    """The bus no longer holds what the next batch must read."""
