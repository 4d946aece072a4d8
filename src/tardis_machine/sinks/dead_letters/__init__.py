"""Events that can never be delivered: where they go, and how they are sent again."""
