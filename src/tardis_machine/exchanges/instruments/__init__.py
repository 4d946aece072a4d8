"""What the symbols of exchanges stand for, by rules per family; pure, like the mappers."""
