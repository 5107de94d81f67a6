"""The machine of the model, run cycle by cycle: the oracle that every bound is checked against."""
