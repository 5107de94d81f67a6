"""The worst-case makespan of identical warps on load/store units and cores (Berezovskyi 2012)."""
