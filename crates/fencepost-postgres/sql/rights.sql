-- Loaded after all functions: whoever may use the schema calls what was granted to it, and nothing because it is PUBLIC.
revoke execute on all functions in schema fencepost from public;
