"""Errors of the lake; `model.errors` draws the tree."""

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
