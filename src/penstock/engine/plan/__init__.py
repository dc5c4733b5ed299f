"""Which mechanism to use: all of them simulated on public counts, never on private events.

`knowledge` turns what is publicly known into counts (`public_counts`, `sample_files`, `releases`),
`candidates` finds the mechanisms that can keep the promise, `simulation` and `planner` run them
(`duration` tells how long), `plan` says what to use, and `auto` chooses the mechanism of a view
before its first release.
"""
