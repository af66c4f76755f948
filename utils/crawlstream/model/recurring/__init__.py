"""Recurring crawls: schedules, occasions, and the times of a schedule."""
