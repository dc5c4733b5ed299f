"""Methods that papers compare with, in a form that keeps its promise. For the bench only."""
