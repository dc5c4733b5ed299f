"""Values, errors and exact numbers: what every layer speaks in. Imports nothing of ours."""
