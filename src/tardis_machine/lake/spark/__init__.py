"""The Spark session: Java, jars, class archive and schemas."""
