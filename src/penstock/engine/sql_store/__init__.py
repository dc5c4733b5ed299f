"""A store in the tables of a database; `sqlite` and `postgres` give connection and dialect.

`schema` has the tables, `reader` reads their public part, `verification` follows the hash chain,
`writer` appends units, `sealed_state` keeps the secret part, `leases` says who may publish, and
`store` is all of it for a publisher.
"""

from penstock.engine.sql_store.reader import SqlReader
from penstock.engine.sql_store.store import SqlStore, UncertainError
from penstock.engine.sql_store.writer import SqlWriter

__all__ = ["SqlReader", "SqlStore", "SqlWriter", "UncertainError"]
