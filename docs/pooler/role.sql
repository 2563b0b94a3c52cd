-- As a superuser, before PgBouncer starts (open sessions stay as they are, so else restart it): PgBouncer does not pass on the startup
-- parameters of the service, so its role has them. `userdir doctor` names what the role lacks.
ALTER ROLE userdir IN DATABASE userdir SET TimeZone = 'UTC';
ALTER ROLE userdir IN DATABASE userdir SET DateStyle = 'ISO';
ALTER ROLE userdir IN DATABASE userdir SET jit = off;
ALTER ROLE userdir IN DATABASE userdir SET plan_cache_mode = force_generic_plan;
ALTER ROLE userdir IN DATABASE userdir SET statement_timeout = '5s';
ALTER ROLE userdir IN DATABASE userdir SET lock_timeout = '4s';
