-- One queue by name. Returns no row or one: id, partitions.
-- Locks: none of its own.
SELECT id, partitions FROM fencepost_queue WHERE name = ?1;
