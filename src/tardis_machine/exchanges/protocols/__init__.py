"""Message shapes that several venues share."""
