"""What is fed again and again: schedules and occasions, and the times of a schedule."""
