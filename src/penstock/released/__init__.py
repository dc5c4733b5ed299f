"""What was released, and what can be answered from it. No raw data from here on."""
