"""Raw data live only here. Nothing leaves but through the gate."""
