"""Simulated streams of people: a city, a campus, a census and a taxi fleet."""
