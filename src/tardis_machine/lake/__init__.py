"""The lakehouse: Bronze, Silver and Gold tables, and the Spark jobs that write them."""
