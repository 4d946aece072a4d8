"""The publisher process: who writes for it, who runs it, what it does."""
