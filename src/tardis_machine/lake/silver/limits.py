"""How far the time of an exchange may be from the time of arrival."""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.arrow import Values, arrow, kernels
from tardis_machine.model.time import DAY_US, MINUTE_US, SECOND_US


@dataclass(frozen=True)
class EventLimits:
    """Which event times are taken for wrong."""

    max_skew_seconds: float = 7 * DAY_US / SECOND_US
    """Most seconds between event time and local time; 0: no limit."""
    late_exchanges: tuple[str, ...] = ()
    """Exchanges without the limit: they send events with old times."""

    def is_exceeded(self) -> Column:
        """Return the condition that rows with exchange, event_ts and local_ts break the limit."""
        if not self.max_skew_seconds:
            return F.lit(False)
        apart = F.abs(F.unix_micros("local_ts") - F.unix_micros("event_ts"))
        is_far = apart > F.lit(round(self.max_skew_seconds * SECOND_US))
        return is_far & ~F.col("exchange").isin(*self.late_exchanges)

    def near_minutes(self, groups: Values) -> Values:
        """Keep minutes that may have events within the limit.

        Args:
            groups: An Arrow table of exchange, minute, and the first and last local time in it.
        """
        if not self.max_skew_seconds:
            return groups
        limit_us = round(self.max_skew_seconds * SECOND_US) + MINUTE_US
        minute_us = groups["minute"].cast(arrow.int64())
        is_near = kernels.and_(
            kernels.less_equal(kernels.subtract(groups["first_us"], minute_us), limit_us),
            kernels.less_equal(kernels.subtract(minute_us, groups["last_us"]), limit_us),
        )
        is_late = kernels.is_in(groups["exchange"], arrow.array(self.late_exchanges, "string"))
        return groups.filter(kernels.or_(is_near.fill_null(False), is_late))
