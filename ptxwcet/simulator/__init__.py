"""Simulates the machine of the model cycle by cycle: the oracle that checks every bound."""
