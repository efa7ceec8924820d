"""What a turn may cost in time: deadlines, the order of engine work, and the errors every stage shares."""
