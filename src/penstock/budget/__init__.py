"""What was promised, what was spent, what is left: public arithmetic without data."""
