"""Events of destinations in trouble: on disk, tried again, and open files within bounds."""
