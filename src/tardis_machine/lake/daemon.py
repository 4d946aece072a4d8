"""The process that Spark forks its Python workers from: `pyspark.daemon`, made ready for the lake.

What tasks of the lake import is imported here, once, instead of in every worker.
"""

from pyspark.daemon import manager

import tardis_machine.lake.bronze.files
import tardis_machine.lake.buses.source
import tardis_machine.lake.silver.rows  # noqa: F401
from tardis_machine.lake.spark.no_pandas import skip_pandas

if __name__ == "__main__":
    skip_pandas()
    manager()
