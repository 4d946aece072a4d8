"""The lake: Bronze, Silver and Gold tables, and the Spark jobs that fill them."""
