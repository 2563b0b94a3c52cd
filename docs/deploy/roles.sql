-- psql --file=roles.sql postgres://postgres@db.example.com/postgres
-- as a superuser, before the first migration: userdir_owner owns and migrates the tables; userdir serves, and cannot change them. Choose the
-- passwords first. `userdir doctor` prints the statements that grant what userdir lacks.
CREATE ROLE userdir_owner LOGIN PASSWORD 'choose one';
CREATE ROLE userdir LOGIN PASSWORD 'choose another';
CREATE DATABASE userdir OWNER userdir_owner TEMPLATE template0 ENCODING 'UTF8';

-- What userdir_owner will make is for userdir too.
\connect userdir
SET ROLE userdir_owner;
ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO userdir;
ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO userdir;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO userdir;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO userdir;
