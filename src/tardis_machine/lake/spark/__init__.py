"""How the lake gets its Spark session: Java, jars, schemas."""
