-- How many messages a consumer set aside, by partition and place. Returns: partition, place, count.
-- Locks: none.
SELECT partition, place, count(*) FROM fencepost_aside WHERE consumer_id = ?1 GROUP BY partition, place;
