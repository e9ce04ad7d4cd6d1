"""Python scripts as clones of an interpreter that has imported what they need. `WarmPython` is in python.py."""
