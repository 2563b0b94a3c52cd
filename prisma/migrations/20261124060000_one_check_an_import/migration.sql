-- An import takes the lock of `require_project_here` once, at its start, and holds it until its transaction ends: a move cannot close the project
-- meanwhile. So its rows need not be checked one by one, which took 8 % of the time of an import. It says so by a setting of the transaction
-- (stayHere in src/users/transfers.sql.ts). Otherwise as in 20261123010000_project_moves.
CREATE OR REPLACE TRIGGER users_refuse_moving AFTER INSERT OR UPDATE OR DELETE ON users
    FOR EACH ROW WHEN (current_setting('userdir.stays_here', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION refuse_moving_rows();
CREATE OR REPLACE TRIGGER accounts_refuse_moving AFTER INSERT OR UPDATE OR DELETE ON accounts
    FOR EACH ROW WHEN (current_setting('userdir.stays_here', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION refuse_moving_rows();
