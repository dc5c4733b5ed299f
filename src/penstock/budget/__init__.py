"""Budgets and ledgers: public arithmetic without data."""
