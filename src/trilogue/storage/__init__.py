"""What lasts: database engines, files that only their owner can read, and where each kind of state is kept."""
