"""What integer and predicate registers hold in each lane: known, in a range, or unknown."""
