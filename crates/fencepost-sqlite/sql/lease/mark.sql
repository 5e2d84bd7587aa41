-- A number that differs once a lease had another grant, and is odd while somebody holds it. Returns no row or one.
-- Locks: none.
SELECT epoch * 2 + (holder IS NOT NULL) FROM fencepost_lease WHERE name = ?1;
