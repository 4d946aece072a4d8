"""What the process says about itself: logs, metrics, health."""
