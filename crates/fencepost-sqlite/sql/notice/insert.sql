-- Appends a notice. Returns nothing; its number is the row's.
-- Locks: the write lock, shortly.
INSERT INTO fencepost_notice (channel, payload, at) VALUES (?1, ?2, ?3);
